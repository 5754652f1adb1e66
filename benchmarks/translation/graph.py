"""The graph with a translate pool, recordings with references, and translations in sessions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from auricle.audio.pcm import to_int16
from auricle.client import Final, Translation
from auricle_testing.server import AS_DELIVERED, Server, free_port, serving
from benchmarks.harness import Run
from benchmarks.prepared import corpus
from benchmarks.sessions import Session, limited, run_session
from benchmarks.speech import Recording, spoken
from benchmarks.translation.latency import CommittedWord, Sentence
from benchmarks.words import spoken_in
from models.training.translate.parallel import held_out

GRAPH = "graphs.e_pd_translate:Frontend"
TARGET = "es"
TRANSLATED = {"words": False, "translate": (TARGET,)}
_PAUSES = (0.3, 0.9)


def recordings(count: int, seconds: float, seed: int = 0) -> list[Recording]:
    """Return recordings of held-out sentences in training voices."""
    dice = random.Random(seed)
    return [spoken(corpus("seen"), dice, seconds, _PAUSES) for _ in range(count)]


@contextmanager
def translating(run: Run, *overrides: str) -> Iterator[Server]:
    """Run the graph with the translate pool, as delivered, until the block ends."""
    port = free_port()
    options = (
        *AS_DELIVERED,
        f"--Common.translate_model={run.arguments.translator}",
        f"--TranslateWorker.system_port={port}",
        *overrides,
    )
    with serving(*options, graph=GRAPH) as server:
        server.system_ports["TranslateWorker"] = port
        yield server


async def translated(
    url: str, recording: Recording, *, live: bool = True, **options: Any
) -> Session:
    """Run a session with translations; as fast as the server takes it unless `live`."""
    pcm = to_int16(recording.samples)
    return await run_session(url, pcm, **(TRANSLATED | {"live": live} | options))


def all_translated(
    url: str, some: Sequence[Recording], at_once: int, **options: Any
) -> list[Session]:
    """Run a session for each recording, `at_once` at a time."""
    return asyncio.run(limited(at_once, some, lambda one: translated(url, one, **options)))


def texts(session: Session) -> dict[int, str]:
    """Return the final texts, by segment."""
    return {segment: final.text for segment, final in session.of(Final).items()}


def target_text(session: Session) -> str:
    """Return the whole translation, in order."""
    return " ".join(one.committed for _, one in sorted(session.of(Translation).items())).strip()


def committed(session: Session) -> list[CommittedWord]:
    """Return the words of the translation in their order, with when each was committed."""
    found: dict[int, list[CommittedWord]] = {}
    for one in session.events:
        if isinstance(one.event, Translation):
            words = found.setdefault(one.event.segment, [])
            new = one.event.committed.split()[len(words) :]
            words += [CommittedWord(word, one.audio, one.at - session.began) for word in new]
    return [word for _, words in sorted(found.items()) for word in words]


def taken_back(session: Session) -> int:
    """Return the number of committed words of translations that a later event changes."""
    before: dict[int, list[str]] = {}
    lost = 0
    for one in session.events:
        if isinstance(one.event, Translation):
            words, now = before.get(one.event.segment, []), one.event.committed.split()
            same = next((n for n, w in enumerate(words) if now[n : n + 1] != [w]), len(words))
            lost += len(words) - same
            before[one.event.segment] = now
    return lost


def sentences(recording: Recording) -> list[Sentence]:
    """Return its sentences with the reference of each. Raises KeyError for one without."""
    known = dict(held_out())
    found = []
    starts = [start for start, _ in recording.sentences]
    for (start, end), following in zip(
        recording.sentences, [*starts[1:], recording.seconds + 1], strict=True
    ):
        source = " ".join(w.text for w in spoken_in(recording.words, start, following))
        found.append(Sentence(start, end, tuple(known[source].split())))
    return found


def reference(recording: Recording) -> str:
    """Return the reference translation of the whole recording."""
    return " ".join(word for one in sentences(recording) for word in one.reference)
