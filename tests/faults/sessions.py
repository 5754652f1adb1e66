"""One recording in real time, and what must hold of its text whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from auricle.client.stream import Event, stream_file
from auricle.core.aio import cancelled
from auricle_testing import recordings
from auricle_testing.server import Server
from auricle_testing.transcripts import compared

SECONDS = 300.0


async def spoken(
    server: Server,
    reached: asyncio.Event | None = None,
    share: float = 0.0,
    *,
    urls: Sequence[str] = (),
    told: Callable[[str], None] = lambda _: None,
) -> list[Event]:
    """The session's events; `reached` is set once `share` of it was sent and there was a partial.

    Not at a partial of the time after: there is none if a process hangs then.
    """
    samples = recordings.samples("kitchen")
    from_seconds = share * len(samples) / recordings.SAMPLE_RATE
    events: list[Event] = []
    sent = 0.0

    def look(seconds: float) -> None:
        nonlocal sent
        sent = seconds
        begun = any(event["type"] == "partial" for event in events)
        if reached is not None and begun and sent >= from_seconds:
            reached.set()

    async with asyncio.timeout(SECONDS):
        async for event in stream_file(
            urls or server.url, samples, live=True, on_sent=look, on_lost=told
        ):
            events.append(event)
            look(sent)
    return events


async def until(reached: asyncio.Event, session: asyncio.Task[list[Event]]) -> None:
    """A session that ends before raises what it raised."""
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait((waiting, session), return_when=asyncio.FIRST_COMPLETED)
    await cancelled([waiting])
    assert reached.is_set(), f"ended before: {session.result()[-1]}"


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
