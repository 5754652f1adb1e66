"""Whether text comes later for the words that follow it, and how much later these come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from auricle.audio.pcm import Int16
from auricle.client import Final, Words
from benchmarks.annotations.graph import Asked, Told, speech, told
from benchmarks.before.pairs import ratio
from benchmarks.parts import Sized

# About half of what two cores carry with the demo model (`capacity_without_words`).
_AT_ONCE = 4
_SPREAD_SECONDS = 0.7
_SECONDS = 8.0


def delays(asked: Asked) -> dict[str, float]:
    """Speak in real time with and without words, in turns on one graph."""
    with asked.serving() as server:
        stops: dict[bool, list[float]] = {True: [], False: []}
        after: list[float] = []
        missing = segments = 0
        for wanted, events, stopped in in_turns(asked, server.url, {"words": True}):
            stops[wanted].append(last_final(events) - stopped)
            if wanted:
                waited, without = waits(events)
                after += waited
                missing += without
                segments += len(waits) + without
    return final_delays(stops, "words") | {
        "words_delay_p95_ms": 1000 * float(np.percentile(after, 95)) if after else float("nan"),
        "words_missing_share": missing / max(1, segments),
    }


def final_delays(stops: Mapping[bool, Sequence[float]], name: str) -> dict[str, float]:
    """Compare seconds from the end of the audio to the last final, with and without, in pairs."""
    found = ratio(stops[False], stops[True])
    return {
        "final_delay_ratio": found.ratio,
        "final_delay_ratio_low": found.low,
        "final_delay_ratio_high": found.high,
        f"final_delay_ms_with_{name}": 1000 * found.now,
        "final_delay_ms_without": 1000 * found.before,
    }


def in_turns(
    asked: Sized, url: str, wanted: Mapping[str, Any]
) -> Iterator[tuple[bool, list[Told], float]]:
    """Yield sessions in real time, some at once, in turns with what is `wanted` and without:
    whether with, its events, and when its audio had ended.
    """
    plain = {"words": False}
    asyncio.run(_round(url, speech(_AT_ONCE, 3.0, seed=99), wanted))
    for number in range(asked.of(12, 4)):
        said = speech(_AT_ONCE, _SECONDS, seed=number)
        for options in (wanted, plain) if number % 2 else (plain, wanted):
            for events, stopped in asyncio.run(_round(url, said, options)):
                yield options is wanted, events, stopped


async def _round(
    url: str, said: Sequence[Int16], options: Mapping[str, Any]
) -> list[tuple[list[Told], float]]:
    """Return each session's events, and when its audio had ended."""

    async def one(place: int, pcm: Int16) -> tuple[list[Told], float]:
        await asyncio.sleep(place * _SPREAD_SECONDS)  # as people, not all at once
        loop, seconds = asyncio.get_running_loop(), len(pcm) / 16_000
        stopped = [0.0]

        def sent(audio_seconds: float) -> None:
            if audio_seconds >= seconds - 1e-3 and not stopped[0]:
                stopped[0] = loop.time()

        events = await told(url, pcm, live=True, on_sent=sent, **options)
        return events, stopped[0]

    return await asyncio.gather(*(one(at, pcm) for at, pcm in enumerate(said)))


def last_final(events: Sequence[Told]) -> float:
    """Return when the last final came."""
    return max(one.at for one in events if isinstance(one.event, Final))


def waits(events: Sequence[Told]) -> tuple[list[float], int]:
    """Return the seconds from each final to its words, and how many have no aligned ones."""
    final = dict(_finals(events))
    found = [one for one in events if isinstance(one.event, Words)]
    there = [
        one.at - final[one.event.segment]
        for one in found
        if isinstance(one.event, Words) and one.event.source == "aligned"
    ]
    return there, len(found) - len(there)


def _finals(events: Sequence[Told]) -> Iterator[tuple[int, float]]:
    for one in events:
        if isinstance(one.event, Final):
            yield one.event.segment, one.at
