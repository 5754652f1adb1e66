"""One recording in real time, and what must hold of its text whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from auricle.client.stream import Event, stream_file
from auricle.tasks import cancelled
from benchmarks.faults.compare import compared
from tests import recordings
from tests.server import Server

SECONDS = 180.0


async def spoken(
    server: Server, reached: asyncio.Event | None = None, share: float = 0.0
) -> list[Event]:
    """The session's events; `reached` is set at the first partial after `share` of it."""
    samples = recordings.samples("kitchen")
    from_ms = share * len(samples) / recordings.SAMPLE_RATE * 1000
    events = []
    async with asyncio.timeout(SECONDS):
        async for event in stream_file(server.url, samples, live=True):
            events.append(event)
            there = event["type"] == "partial" and event["audio_ms"] >= from_ms
            if reached is not None and there:
                reached.set()
    return events


async def until(reached: asyncio.Event, session: asyncio.Task[list[Event]]) -> None:
    """A session that ends before raises what it raised."""
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait((waiting, session), return_when=asyncio.FIRST_COMPLETED)
    await cancelled([waiting])
    assert reached.is_set(), f"ended before: {session.result()[-1]}"


def heard(events: list[Event]) -> str:
    """Of the finals. Also: what was committed stayed, segments neither overlap nor repeat."""
    assert events[-1]["type"] == "done", events[-1]
    finals = [e for e in events if e["type"] == "final"]
    assert [e["segment"] for e in finals] == sorted({e["segment"] for e in finals})
    for before, after in pairwise(finals):
        assert before["end_ms"] <= after["start_ms"]
    committed: dict[int, str] = {}
    for event in events:
        if event["type"] in ("partial", "final"):
            said = event["committed"] if event["type"] == "partial" else event["text"]
            assert said.startswith(committed.get(event["segment"], ""))
            committed[event["segment"]] = said
    assert " ".join(e["text"] for e in finals if e["text"]) == events[-1]["text"]
    return str(events[-1]["text"])


def replaced(server: Server, component: str, old: int) -> bool:
    """Whether the launcher has started another process in its place."""
    try:
        return server.component(component).pid != old
    except LookupError:
        return False


def check_words(undisturbed: str, found: str) -> None:
    """None is missing, none is there twice.

    Grid points that load skips are not decoded, so a word that is heard wrongly anyway may be
    heard wrongly in another way.
    """
    words = compared(undisturbed, found)
    assert (words.lost, words.doubled) == (0, 0), f"{found!r} instead of {undisturbed!r}"
    assert words.changed <= 1, f"{found!r} instead of {undisturbed!r}"
