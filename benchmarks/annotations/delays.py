"""Whether words delay the text, and how long after it they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auricle.audio.pcm import Int16
from auricle.client import Final, Words
from benchmarks.annotations.graph import annotating, speech, with_words
from benchmarks.harness import Run
from benchmarks.sessions import Session
from benchmarks.statistics import in_turns, percentile, ratio

# About half of the capacity of two cores with the demo model (`capacity_without_words`).
_AT_ONCE = 4
_SPREAD_SECONDS = 0.7
_SECONDS = 8.0


def delays(run: Run) -> dict[str, float]:
    """Run sessions in real time with and without words, in turns on one graph."""
    with annotating(run) as server:
        stops: dict[bool, list[float]] = {True: [], False: []}
        after: list[float] = []
        missing = segments = 0
        for wanted, session in alternating(run, server.url, {"words": True}):
            stops[wanted].append(last_final(session) - session.stopped)
            if wanted:
                waited, without = waits(session)
                after += waited
                missing += without
                segments += len(waited) + without
    return final_delays(stops, "words") | {
        "words_delay_p95_ms": 1000 * percentile(after, 0.95),
        "words_missing_share": missing / max(1, segments),
    }


def final_delays(stops: Mapping[bool, Sequence[float]], name: str) -> dict[str, float]:
    """Compare seconds from the end of the audio to the last final, with and without, in pairs."""
    found = ratio(stops[False], stops[True])
    return found.named("final_delay_ratio") | {
        f"final_delay_ms_with_{name}": 1000 * found.now,
        "final_delay_ms_without": 1000 * found.before,
    }


def alternating(run: Run, url: str, wanted: Mapping[str, Any]) -> Iterator[tuple[bool, Session]]:
    """Yield sessions in real time, some at once, in turns with the options `wanted` and without:
    whether with them, and the session.
    """
    plain = {"words": False}
    asyncio.run(_round(url, speech(_AT_ONCE, 3.0, seed=99), wanted))
    for number in range(run.of(12, 4)):
        recordings = speech(_AT_ONCE, _SECONDS, seed=number)
        for options in in_turns((wanted, plain), number):
            for session in asyncio.run(_round(url, recordings, options)):
                yield options is wanted, session


async def _round(
    url: str, recordings: Sequence[Int16], options: Mapping[str, Any]
) -> list[Session]:
    async def one(place: int, pcm: Int16) -> Session:
        await asyncio.sleep(place * _SPREAD_SECONDS)  # staggered starts, as of real users
        return await with_words(url, pcm, live=True, **options)

    return await asyncio.gather(*(one(at, pcm) for at, pcm in enumerate(recordings)))


def last_final(session: Session) -> float:
    """Return when the last final arrived."""
    return max(one.at for one in session.events if isinstance(one.event, Final))


def waits(session: Session) -> tuple[list[float], int]:
    """Return the seconds from each final to its words, and the number of segments without aligned
    words."""
    finals = {e.event.segment: e.at for e in session.events if isinstance(e.event, Final)}
    words = [(e.at, e.event) for e in session.events if isinstance(e.event, Words)]
    aligned = [at - finals[event.segment] for at, event in words if event.source == "aligned"]
    return aligned, len(words) - len(aligned)
