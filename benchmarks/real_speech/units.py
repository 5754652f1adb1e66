"""What is measured: a way of hearing and a set of recordings make a unit. Pure, but for `audio`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.real_speech import conditions, corpus
from benchmarks.real_speech.corpus import LANGUAGES, Spoken

# Of the server; live with its cadence, and with others.
SERVED = ("post", "command_line", "live", "live_640", "live_2560")
REAL_TIME = "real_time"
PEERS = ("faster_whisper", "faster_whisper_vad", "transformers", "offline")
WAYS = (*SERVED, REAL_TIME, *PEERS)
WORDLESS = "wordless"
SETS = (*corpus.SETS, *conditions.CONDITIONS, WORDLESS)
_IN_NOISE = ("post", "live", "faster_whisper", "faster_whisper_vad")
_EVERY = 2  # of the recordings of people, in noise and in real time
_WORDLESS_MINUTES = 30.0
# A set, and the ways that hear it.
PLAN: dict[str, tuple[str, ...]] = {
    "people": WAYS,
    "neural": ("post", "command_line", "live", *PEERS),
    **dict.fromkeys(conditions.CONDITIONS, _IN_NOISE),
    **dict.fromkeys(LANGUAGES, _IN_NOISE),
    WORDLESS: ("post", "live", "faster_whisper", "faster_whisper_vad"),
}


@dataclass(frozen=True)
class Row:
    """A recording as it was heard; what a way cannot tell is None.

    `parts` are [start, end) of the segments that have text, `first` and `final` as of `live.Timed`.
    """

    name: str
    text: str
    parts: tuple[tuple[float, float], ...] | None = None
    first: float | None = None
    final: float | None = None


@dataclass(frozen=True)
class Unit:
    """A set as one way heard it; seconds of CPU in all processes."""

    rows: tuple[Row, ...]
    audio_seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Unit:
        """Read one from JSON."""
        return cls(
            tuple(Row(**row) for row in plain["rows"]),
            plain["audio_seconds"],
            plain["cpu_seconds"],
        )


def audio(name: str, way: str, minutes: float) -> list[Spoken]:
    """Return the recordings of a set for a way: some `minutes` of them, of all that it has."""
    if name == WORDLESS:
        whole = min(minutes, _WORDLESS_MINUTES) * 60
        return list(conditions.without_words(whole / len(conditions.KINDS)))
    some = corpus.recordings(name if name in corpus.SETS else "people")
    if way == REAL_TIME or name in conditions.CONDITIONS:
        some = some[::_EVERY]
    chosen = limited(some, minutes * 60)
    if name in conditions.CONDITIONS:
        return [conditions.under(conditions.CONDITIONS[name], one) for one in chosen]
    return chosen


def texts(sets: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return what is said in each recording of the sets, and in which language."""
    plain = {"people" if name in conditions.CONDITIONS else name for name in sets} - {WORDLESS}
    return {one.name: (one.text, one.language) for name in plain for one in corpus.recordings(name)}


def limited(recordings: Sequence[Spoken], seconds: float) -> list[Spoken]:
    """Return recordings until they last so long; the first in any case."""
    chosen: list[Spoken] = []
    for one in recordings:
        if chosen and sum(c.seconds for c in chosen) >= seconds:
            break
        chosen.append(one)
    return chosen


def planned(
    ways: Sequence[str], sets: Sequence[str], *, multilingual: bool
) -> list[tuple[str, str]]:
    """Return (way, set) in the order of the plan; other languages of checkpoints that know them."""
    return [
        (way, name)
        for name, by in PLAN.items()
        for way in by
        if way in ways and name in sets and (multilingual or name not in LANGUAGES)
    ]
