"""Sessions with the product's own client: their events with times, a few sessions at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.client import Client, Final, Partial, StreamEvent

# No session yields to another one, so that its text does not depend on the load.
NOT_AHEAD = "--Frontend.ahead_seconds=1000000"
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Event = TypeVar("_Event", bound=StreamEvent)


@dataclass(frozen=True)
class TimedEvent:
    """An event, when it arrived (monotonic seconds), and up to where in the audio (s) the text of
    all events so far goes."""

    at: float
    audio: float
    event: StreamEvent


@dataclass
class Session:
    """The events of a session; `began` and `stopped` are when its first and last audio was sent."""

    events: list[TimedEvent] = field(default_factory=list)
    began: float = 0.0
    stopped: float = 0.0

    def of(self, kind: type[_Event]) -> dict[int, _Event]:
        """Return the last event of a kind, by segment."""
        found = (one.event for one in self.events)
        return {event.segment: event for event in found if isinstance(event, kind)}

    def finals(self) -> dict[int, Final]:
        """Return the finals with text, by segment."""
        return {segment: final for segment, final in self.of(Final).items() if final.text}


async def run_session(
    url: str,
    pcm: Int16,
    on_event: Callable[[StreamEvent], None] = lambda event: None,
    **options: Any,
) -> Session:
    """Run a session to its end; `options` are passed to `Client.stream`."""
    session, audio, seconds = Session(), 0.0, len(pcm) / SAMPLE_RATE

    def sent(audio_seconds: float) -> None:
        session.began = session.began or time.monotonic()
        if audio_seconds >= seconds - 1e-3 and not session.stopped:
            session.stopped = time.monotonic()

    async for event in Client(url).stream(pcm, on_sent=sent, **options):
        if isinstance(event, Partial):
            audio = event.audio_ms / 1000
        elif isinstance(event, Final):
            audio = event.end_ms / 1000
        session.events.append(TimedEvent(time.monotonic(), audio, event))
        on_event(event)
    return session


async def limited(
    limit: int, items: Iterable[_Item], work: Callable[[_Item], Awaitable[_Result]]
) -> list[_Result]:
    """Return the results of all items in their order, at most `limit` at a time."""
    slots = asyncio.Semaphore(limit)

    async def one(item: _Item) -> _Result:
        async with slots:
            return await work(item)

    return await asyncio.gather(*map(one, items))
