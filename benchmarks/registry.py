"""The registry of published figures (`figures.toml`) and the names of all benchmarks."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
# Everything that `python -m benchmarks.run` runs.
NAMES = (
    *("load", "streaming", "overload", "overload.simulation", "planner", "faults", "hostile"),
    *("live.growth", "live.holds", "ways", "ways.cadence", "ways.lengths", "clients"),
    *("annotations", "annotations.confidence", "annotations.turns", "translation", "languages"),
    *(
        "keywords",
        "real_speech",
        "real_speech.exact",
        "peers",
        "people",
        "frontdoor",
        "frontdoor.several",
        "scale",
        "gpu",
        "before",
    ),
    *("architectures", "encoder_exactness", "encoder_int8", "encoder_kinds", "encoder_work"),
    *("kv_reuse", "live_cost", "log_mel", "footprint", "two_minutes", "tuning"),
    *("checkpoints", "heavier", "live_and_recordings"),
    "smoke",
)


@dataclass(frozen=True)
class Figure:
    """A published figure: its unit, its meaning in words, and its bar, empty for none."""

    name: str
    unit: str
    meaning: str
    bar: str


@dataclass(frozen=True)
class Entry:
    """A benchmark's title, the one command that measures its figures, and these.

    `about` follows the command in the benchmark's section of RESULTS.md.
    """

    title: str
    command: str
    figures: tuple[Figure, ...]
    about: str = ""


def _entries() -> dict[str, Entry]:
    found = {}
    for name, entry in tomllib.loads((_HERE / "figures.toml").read_text()).items():
        figures = tuple(Figure(*row) for row in entry["figures"])
        found[name] = Entry(entry["title"], entry["command"], figures, entry.get("about", ""))
    return found


ENTRIES = _entries()
