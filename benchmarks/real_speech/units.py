"""Units of measurement: a way of transcribing, and a set of recordings. Pure, but for `audio`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.real_speech import conditions, corpus
from benchmarks.real_speech.corpus import LANGUAGES, Spoken

# Ways of the server: `live` with its default cadence, and with others.
SERVED = ("post", "command_line", "live", "live_640", "live_2560")
REAL_TIME = "real_time"
PEERS = ("faster_whisper", "faster_whisper_vad", "transformers", "offline")
WAYS = (*SERVED, REAL_TIME, *PEERS)
WORDLESS = "wordless"
SETS = (*corpus.SETS, *conditions.CONDITIONS, WORDLESS)
_IN_NOISE = ("post", "live", "faster_whisper", "faster_whisper_vad")
_EVERY = 2  # every second recording of people is used in noise and in real time
_WORDLESS_MINUTES = 30.0
# Each set, and the ways that transcribe it.
PLAN: dict[str, tuple[str, ...]] = {
    "people": WAYS,
    "neural": ("post", "command_line", "live", *PEERS),
    **dict.fromkeys(conditions.CONDITIONS, _IN_NOISE),
    **dict.fromkeys(LANGUAGES, _IN_NOISE),
    WORDLESS: ("post", "live", "faster_whisper", "faster_whisper_vad"),
}


@dataclass(frozen=True)
class Row:
    """The transcript of a recording; values that a way does not provide are None.

    `parts` are [start, end) of the segments that have text, `first` and `final` as of `live.Timed`.
    """

    name: str
    text: str
    parts: tuple[tuple[float, float], ...] | None = None
    first: float | None = None
    final: float | None = None


@dataclass(frozen=True)
class Unit:
    """The transcripts of a set in one way; CPU seconds are of all processes."""

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
    """Return the recordings of a set for a way: about `minutes` of all that it has."""
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
    """Return the text and the language of each recording of the sets."""
    plain = {"people" if name in conditions.CONDITIONS else name for name in sets} - {WORDLESS}
    return {one.name: (one.text, one.language) for name in plain for one in corpus.recordings(name)}


def limited(recordings: Sequence[Spoken], seconds: float) -> list[Spoken]:
    """Return the first recordings that together last `seconds`, but at least one."""
    chosen: list[Spoken] = []
    for one in recordings:
        if chosen and sum(c.seconds for c in chosen) >= seconds:
            break
        chosen.append(one)
    return chosen


def planned(
    ways: Sequence[str], sets: Sequence[str], *, multilingual: bool
) -> list[tuple[str, str]]:
    """Return (way, set) in the order of the plan; other languages only if `multilingual`."""
    return [
        (way, name)
        for name, by in PLAN.items()
        for way in by
        if way in ways and name in sets and (multilingual or name not in LANGUAGES)
    ]
