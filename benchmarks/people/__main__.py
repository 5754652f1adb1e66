"""What people meet: first words, pages, documents, and voices that nobody trained on.

    python -m benchmarks.people --out FILE [--quick | --smoke] [--only GROUP …]

Groups: `words` (word error rates of models/demo in voices of espeak-ng, of flite and of a person,
whose packages apt-get downloads), `documents` (links and names), `first` (from `auricle demo` to
its first words), `pages` (Chromium and axe-core; needs `make chromium-env`). Figures of groups
that FILE has from before are kept. Ten minutes on two cores, `--quick` five.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import results
from benchmarks.people import looking, reading, voices
from benchmarks.results import Result
from models.training.packages import NoPackages

_SCALES = {"full": (voices.FULL, 3), "quick": (voices.QUICK, 1), "smoke": (voices.SMOKE, 1)}


def _words(scale: voices.Scale, _starts: int, _out: Path) -> Result:
    return {"figures": voices.figures(scale)}


def _documents(_scale: voices.Scale, _starts: int, _out: Path) -> Result:
    found = reading.findings()
    return {"figures": {name: float(len(all_)) for name, all_ in found.items()}, "found": found}


def _first(_scale: voices.Scale, starts: int, _out: Path) -> Result:
    return {"figures": looking.first_words(starts)}


def _pages(_scale: voices.Scale, _starts: int, out: Path) -> Result:
    found = looking.findings(out.parent / "people-pages")
    figures = {
        "page_weight_kb": max(found["weights_kb"].values()),
        "axe_violations": float(len(found["axe_violations"])),
        "console_messages": float(len(found["console_messages"])),
    }
    return {"figures": figures, "found": found}


GROUPS: dict[str, Callable[[voices.Scale, int, Path], Result]] = {
    "words": _words,
    "documents": _documents,
    "first": _first,
    "pages": _pages,
}


def main() -> None:
    """See the module."""
    parser = results.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    result: Result = {"figures": {}, "found": {}} | results.kept(out) | {"scale": arguments.scale}
    for group in arguments.only:
        try:
            part = GROUPS[group](*_SCALES[arguments.scale], out)
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
