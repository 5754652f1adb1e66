"""What people meet: first words, pages, documents, and voices that nobody trained on.

    python -m benchmarks.people --out FILE [--quick | --smoke] [--only GROUP …]

Groups: `words` (word error rates of models/demo in voices of espeak-ng, of flite and of a person,
whose packages apt-get downloads), `documents` (links and names), `first` (from `auricle demo` to
its first words), `pages` (Chromium and axe-core; needs `make chromium-env`). Figures of groups
that FILE has from before are kept. Ten minutes on two cores, `--quick` five.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.people import looking, reading, voices
from benchmarks.people.packages import NoPackages
from benchmarks.streaming.environment import environment

_SCALES = {"full": (voices.FULL, 3), "quick": (voices.QUICK, 1), "smoke": (voices.SMOKE, 1)}
Result = dict[str, Any]


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true")
    scale.add_argument("--smoke", action="store_true", help="only whether it runs")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    arguments = parser.parse_args()
    size = "quick" if arguments.quick else "smoke" if arguments.smoke else "full"
    out: Path = arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    result: Result = json.loads(out.read_text()) if out.exists() else {"figures": {}, "found": {}}
    result |= {"scale": size, "environment": environment()}
    for group in arguments.only:
        try:
            part = GROUPS[group](*_SCALES[size], out)
        except NoPackages as error:
            raise SystemExit(f"{error}\nWithout them: --only documents first pages") from None
        result["figures"] |= part["figures"]
        result["found"] |= part.get("found", {})
        for name, value in part["figures"].items():
            print(f"{name:28} {value:.4g}", flush=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
    for name in ("broken_links", "names_missing", "names_undocumented", "axe_violations",
                 "console_messages"):  # fmt: skip
        for line in result["found"].get(name, ()):
            print(f"{name}: {line}")


if __name__ == "__main__":
    main()
