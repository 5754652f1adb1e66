"""Each worker beside the path killed in mid-session: text as before, the rest late or missing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping

from auricle.audio.pcm import Int16
from auricle.client import Client, Final, Speakers, Words
from auricle_testing.server import Server, eventually
from benchmarks.annotations.graph import (
    BOTH_POOLS,
    Asked,
    Told,
    finals,
    speakers,
    speech,
    told,
    words,
)

_Read = Callable[[list[Told]], Mapping[int, Words | Speakers]]
# What each of them makes, and the name of that.
_KILLED: Mapping[str, tuple[str, str, _Read]] = {
    "align_worker": ("AlignWorker", "words", words),
    "align_encode_worker": ("AlignEncodeWorker", "words", words),
    "diarize_worker": ("DiarizeWorker", "speakers", speakers),
}
_SECONDS, _BACK_SECONDS = 40.0, 120.0


def faults(asked: Asked) -> dict[str, float]:
    """Kill each in turn after the first final of a session; every other one is as it was."""
    found: dict[str, float] = {}
    with asked.serving("--Common.pause_after_seconds=4", graph=BOTH_POOLS) as server:
        for name, (component, what, read) in _KILLED.items():
            same = wrong = missing = count = 0
            for number in range(asked.of(6, 2)):
                (pcm,) = speech(1, _SECONDS, seed=number)
                usual, hurt = asyncio.run(_both(server, component, pcm))
                same += list(finals(usual).values()) == list(finals(hurt).values())
                right, told_wrong, absent = compared(read(usual), read(hurt))
                wrong, missing = wrong + told_wrong, missing + absent
                count += right + told_wrong + absent
            found |= {
                f"text_identical_{name}": same / asked.of(6, 2),
                f"{what}_wrong_{name}": float(wrong),
                f"{what}_missing_share_{name}": missing / max(1, count),
            }
    return found


async def _both(server: Server, component: str, pcm: Int16) -> tuple[list[Told], list[Told]]:
    asked = {"words": True, "diarize": True, "partials": False}
    usual = await told(server.url, pcm, **asked)
    hurt: list[Told] = []
    killed = False
    async for event in Client(server.url).stream(pcm, **asked):
        hurt.append(Told(0.0, event))
        if isinstance(event, Final) and not killed:
            server.component(component).send_signal(signal.SIGKILL)
            killed = True
    await eventually(lambda: _is_back(server, component), _BACK_SECONDS)
    return usual, hurt


def _is_back(server: Server, component: str) -> bool:
    try:
        return server.component(component).is_running()
    except LookupError:
        return False


def compared(
    usual: Mapping[int, Words | Speakers], hurt: Mapping[int, Words | Speakers]
) -> tuple[int, int, int]:
    """Count segments of which this is as usual, wrong, and missing and said to be so."""
    right = wrong = missing = 0
    for segment, before in usual.items():
        now = hurt.get(segment)
        if now == before:
            right += 1
        elif now is not None and now.missing and now.source is None:
            missing += 1
        else:  # another one, or nothing is said of it
            wrong += 1
    return right, wrong, missing
