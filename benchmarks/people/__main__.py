"""What people meet: first words, pages, documents, and voices that nobody trained on.

    python -m benchmarks.people --out FILE [--quick | --smoke] [--only GROUP …] [--model PATH]

Groups: `words` (word error rates of models/demo, or of another model, in voices of espeak-ng, of
flite and of a person, whose packages apt-get downloads), `documents` (links and names), `first`
(from `auricle demo` to its first words), `pages` (Chromium and axe-core; needs `make
chromium-env`). Figures of groups that FILE has from before are kept. Ten minutes on two cores,
`--quick` five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import results
from benchmarks.people import looking, reading, voices
from benchmarks.results import Result
from models.training.packages import NoPackages

_SCALES = {"full": (voices.FULL, 3), "quick": (voices.QUICK, 1), "smoke": (voices.SMOKE, 1)}


@dataclass(frozen=True)
class Asked:
    """What the command line says; `starts` are those of which the first words are the median."""

    scale: voices.Scale
    starts: int
    out: Path
    model: Path


def _words(asked: Asked) -> Result:
    return {"figures": voices.figures(asked.scale, asked.model)}


def _documents(_: Asked) -> Result:
    found = reading.findings()
    return {"figures": {name: float(len(all_)) for name, all_ in found.items()}, "found": found}


def _first(asked: Asked) -> Result:
    return {"figures": looking.first_words(asked.starts)}


def _pages(asked: Asked) -> Result:
    found = looking.findings(asked.out.parent / "people-pages")
    figures = {
        "page_weight_kb": max(found["weights_kb"].values()),
        "axe_violations": float(len(found["axe_violations"])),
        "console_messages": float(len(found["console_messages"])),
    }
    return {"figures": figures, "found": found}


GROUPS: dict[str, Callable[[Asked], Result]] = {
    "words": _words,
    "documents": _documents,
    "first": _first,
    "pages": _pages,
}


def main() -> None:
    """See the module."""
    parser = results.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--model", type=Path, default=voices.MODEL, help="of the group `words`")
    arguments = parser.parse_args()
    out: Path = arguments.out
    asked = Asked(*_SCALES[arguments.scale], out, arguments.model)
    out.parent.mkdir(parents=True, exist_ok=True)
    result: Result = {"figures": {}, "found": {}} | results.kept(out) | {"scale": arguments.scale}
    for group in arguments.only:
        try:
            part = GROUPS[group](asked)
        except NoPackages as error:
            raise SystemExit(f"{error}\nWithout them: --only documents first pages") from None
        result["figures"] |= part["figures"]
        result["found"] |= part.get("found", {})
        results.tell(part["figures"])
        results.write(out, result)
    for name in ("broken_links", "names_missing", "names_undocumented", "axe_violations",
                 "console_messages"):  # fmt: skip
        for line in result["found"].get(name, ()):
            print(f"{name}: {line}")


if __name__ == "__main__":
    main()
