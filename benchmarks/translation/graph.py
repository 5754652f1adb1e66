"""What the parts have in common: what was asked, the graph with a translate pool, and events."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.audio.pcm import to_int16
from auricle.client import Client, Final, Partial, StreamEvent, Translation
from auricle_testing.server import AS_DELIVERED, Server, free_port, serving
from benchmarks.parts import Sized
from benchmarks.prepared import corpus
from benchmarks.streaming.audio import Recording, spoken
from benchmarks.streaming.words import spoken_in
from benchmarks.translation.latency import Said, Sentence
from models.training.translate.parallel import held_out

GRAPH = "graphs.e_pd_translate:Frontend"
TARGET = "es"
ASKED = {"words": False, "translate": (TARGET,)}
PLAIN = {"words": False}
_PAUSES = (0.3, 0.9)


@dataclass(frozen=True)
class Asked(Sized):
    """A translator's checkpoint, and how much is measured."""

    translator: Path

    def recordings(self, count: int, seconds: float, seed: int = 0) -> list[Recording]:
        """Return some of held-out sentences, of training voices."""
        dice = random.Random(seed)
        return [spoken(corpus("seen"), dice, seconds, _PAUSES) for _ in range(count)]

    @contextmanager
    def serving(self, *overrides: str) -> Iterator[Server]:
        """Run the graph with the translate pool, as it is delivered, until the block ends."""
        port = free_port()
        options = (
            *AS_DELIVERED,
            f"--Common.translate_model={self.translator}",
            f"--TranslateWorker.system_port={port}",
            *overrides,
        )
        with serving(*options, graph=GRAPH) as server:
            server.system_ports["TranslateWorker"] = port
            yield server


@dataclass(frozen=True)
class Heard:
    """An event, seconds after the audio began, and the end of what the text told before covers."""

    at: float
    audio: float
    event: StreamEvent


async def heard(
    url: str, recording: Recording, *, live: bool = True, **options: Any
) -> list[Heard]:
    """Run a session with translations; as fast as the server takes it unless `live`."""
    began: list[float] = []

    def sent(_seconds: float) -> None:
        if not began:
            began.append(time.monotonic())

    found: list[Heard] = []
    audio = 0.0
    asked = ASKED | {"live": live, "on_sent": sent} | options
    async for event in Client(url).stream(to_int16(recording.samples), **asked):
        if isinstance(event, Partial):
            audio = event.audio_ms / 1000
        elif isinstance(event, Final):
            audio = event.end_ms / 1000
        now = time.monotonic()
        found.append(Heard(now - began[0] if began else 0.0, audio, event))
    return found


def all_heard(
    url: str, recordings: Sequence[Recording], at_once: int, **options: Any
) -> list[list[Heard]]:
    """Run a session for each, so many at a time."""

    async def run() -> list[list[Heard]]:
        places = asyncio.Semaphore(at_once)

        async def one(recording: Recording) -> list[Heard]:
            async with places:
                return await heard(url, recording, **options)

        return await asyncio.gather(*(one(recording) for recording in recordings))

    return asyncio.run(run())


def translations(events: Sequence[Heard]) -> dict[int, Translation]:
    """Return the last word about each segment's translation."""
    return {one.event.segment: one.event for one in events if isinstance(one.event, Translation)}


def texts(events: Sequence[Heard]) -> dict[int, str]:
    """Return the final texts, by segment."""
    return {one.event.segment: one.event.text for one in events if isinstance(one.event, Final)}


def target_text(events: Sequence[Heard]) -> str:
    """Return all that was translated, in order."""
    return " ".join(one.committed for _, one in sorted(translations(events).items())).strip()


def kept(events: Sequence[Heard]) -> list[Said]:
    """Return the words of the translation in their order, with when each was committed."""
    found: dict[int, list[Said]] = {}
    for one in events:
        if isinstance(one.event, Translation):
            words = found.setdefault(one.event.segment, [])
            new = one.event.committed.split()[len(words) :]
            words += [Said(word, one.audio, one.at) for word in new]
    return [said for _, words in sorted(found.items()) for said in words]


def taken_back(events: Sequence[Heard]) -> int:
    """Return how many committed words of translations a later event has not, in their place."""
    before: dict[int, list[str]] = {}
    lost = 0
    for one in events:
        if isinstance(one.event, Translation):
            words, now = before.get(one.event.segment, []), one.event.committed.split()
            same = next((n for n, w in enumerate(words) if now[n : n + 1] != [w]), len(words))
            lost += len(words) - same
            before[one.event.segment] = now
    return lost


def sentences(recording: Recording) -> list[Sentence]:
    """Return its sentences with the reference of each.

    Raises KeyError for one that has none.
    """
    known = dict(held_out())
    found = []
    starts = [start for start, _ in recording.sentences]
    for (start, end), following in zip(
        recording.sentences, [*starts[1:], recording.seconds + 1], strict=True
    ):
        said = " ".join(w.text for w in spoken_in(recording.words, start, following))
        found.append(Sentence(start, end, tuple(known[said].split())))
    return found


def reference(recording: Recording) -> str:
    """Return the reference of all it says."""
    return " ".join(word for one in sentences(recording) for word in one.reference)
