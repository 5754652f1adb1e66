"""One recording in real time, and the checks that its text must pass despite a fault."""

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
    """The session's events. `reached` is set after `share` of the audio and a first partial.

    It does not wait for a partial after `share`: a frozen process would prevent it.
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
    """Wait for `reached`; if the session ends first, its error is raised."""
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait((waiting, session), return_when=asyncio.FIRST_COMPLETED)
    await cancelled([waiting])
    assert reached.is_set(), f"ended before: {session.result()[-1]}"


def replaced(server: Server, component: str, old: int) -> bool:
    """Whether the launcher has replaced the process `old`."""
    try:
        return server.component(component).pid != old
    except LookupError:
        return False


def check_words(undisturbed: str, found: str) -> None:
    """Check that no word is missing or duplicated.

    Under load, grid points are skipped and not decoded, so a word that the model gets wrong may be
    wrong in another way.
    """
    words = compared(undisturbed, found)
    assert (words.lost, words.doubled) == (0, 0), f"{found!r} instead of {undisturbed!r}"
    assert words.changed <= 1, f"{found!r} instead of {undisturbed!r}"
