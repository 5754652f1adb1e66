"""What the parts have in common: what was asked, and the graph with an align pool."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.audio.pcm import Int16, to_int16
from auricle.client import Client, Final, Speakers, StreamEvent, Words
from auricle_testing.server import AS_DELIVERED, Server, serving
from benchmarks.parts import Sized
from benchmarks.prepared import ROOT, corpus
from benchmarks.streaming.audio import spoken

SPEAKERS = ROOT / "models/speakers"
_PAUSES = (0.05, 0.3)  # none of them ends a segment
GRAPH = "graphs.e_pd_align:Frontend"
BOTH_POOLS = "graphs.e_pd_align_diarize:Frontend"


@dataclass(frozen=True)
class Asked(Sized):
    """An aligner's checkpoint, whether it is `trained`, and how much is measured."""

    aligner: Path
    trained: bool

    @contextmanager
    def serving(self, *overrides: str, graph: str = GRAPH) -> Iterator[Server]:
        """Run the graph with its pools, as it is delivered, until the block ends."""
        speakers = (f"--Common.speaker_model={SPEAKERS}",) if graph == BOTH_POOLS else ()
        options = (*AS_DELIVERED, f"--Common.align_model={self.aligner}", *speakers, *overrides)
        with serving(*options, graph=graph) as server:
            yield server


def speech(count: int, seconds: float, seed: int = 0) -> list[Int16]:
    """Return recordings of training voices with sentences that are not in training."""
    dice = random.Random(seed)
    some = corpus("seen")
    return [to_int16(spoken(some, dice, seconds, _PAUSES).samples) for _ in range(count)]


@dataclass(frozen=True)
class Told:
    """An event, and when it came (monotonic seconds)."""

    at: float
    event: StreamEvent


async def told(url: str, pcm: Int16, **options: Any) -> list[Told]:
    """Return what a session with words is told; `options` are those of `Client.stream`."""
    events = Client(url).stream(pcm, **({"words": True} | options))
    return [Told(time.monotonic(), event) async for event in events]


def finals(events: list[Told]) -> dict[int, Final]:
    """Return the finals with text, by segment."""
    found = (one.event for one in events)
    return {e.segment: e for e in found if isinstance(e, Final) and e.text}


def words(events: list[Told]) -> dict[int, Words]:
    """Return the words of segments that have any event of them."""
    return {one.event.segment: one.event for one in events if isinstance(one.event, Words)}


def speakers(events: list[Told]) -> dict[int, Speakers]:
    """Return who spoke in segments that have any event of it."""
    return {one.event.segment: one.event for one in events if isinstance(one.event, Speakers)}
