"""Puts what becomes known late between a session's other events; no event waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing

from auricle.messages import Done, Failed, HandedOver, SessionEvent
from auricle.tasks import cancelled

Last = Done | Failed | HandedOver


class LateEvents:
    """The late events of one session, by the segment that each is of. Used on the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Task[None]] = {}
        self._ready: deque[SessionEvent] = deque()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """The segments whose events are under way."""
        return len(self._waiting)

    def tell(self, event: SessionEvent) -> None:
        """Yield an event as soon as possible."""
        self._ready.append(event)
        self._changed.set()

    def start(self, segment: int, making: Coroutine[None, None, SessionEvent], name: str) -> None:
        """Tell what `making` returns once it is there; it must end, and not raise."""

        async def make() -> None:
            event = await making
            del self._waiting[segment]
            self.tell(event)

        self._waiting[segment] = asyncio.create_task(make(), name=name)

    async def among(
        self,
        events: AsyncGenerator[SessionEvent, None],
        seen: Callable[[SessionEvent], SessionEvent],
        lost: Callable[[int, Last], SessionEvent],
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events, as `seen` returns them, and the late ones.

        Only Done waits for what is under way. Before another last event `lost` says what is told
        instead.
        """
        following: asyncio.Task[SessionEvent | None] | None = None
        async with aclosing(events):
            try:
                while True:
                    while self._ready:
                        yield self._ready.popleft()
                    following = following or asyncio.create_task(_next(events), name="event")
                    if not await self._either(following):
                        continue
                    event, following = following.result(), None
                    if event is None:
                        return
                    if isinstance(event, Last):
                        async for late in self._rest(event, lost):
                            yield late
                    yield seen(event)
            finally:  # the generator can be closed only once nobody waits for its next event
                await cancelled([*self._waiting.values(), *([following] if following else [])])

    async def _either(self, following: asyncio.Task[SessionEvent | None]) -> bool:
        """Wait for the next event or for a late one; return whether it is the former."""
        following.add_done_callback(self._look)
        await self._changed.wait()
        self._changed.clear()
        following.remove_done_callback(self._look)
        return following.done()

    def _look(self, _task: object) -> None:
        self._changed.set()

    async def _rest(
        self, event: Last, lost: Callable[[int, Last], SessionEvent]
    ) -> AsyncGenerator[SessionEvent, None]:
        if not isinstance(event, Done):
            late = list(self._waiting)
            await cancelled(list(self._waiting.values()))
            self._waiting.clear()
            for segment in late:
                self.tell(lost(segment, event))
        while self._waiting or self._ready:
            if self._ready:
                yield self._ready.popleft()
                continue
            await self._changed.wait()
            self._changed.clear()


async def _next(events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
    return await anext(events, None)
