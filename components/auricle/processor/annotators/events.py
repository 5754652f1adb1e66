"""Inserts late events into a session's event stream without delaying the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from auricle.core.aio import cancelled
from auricle.protocol.sessions import Failed, HandedOver, SessionDone, SessionEvent

Last = SessionDone | Failed | HandedOver
K = TypeVar("K", bound=Hashable)


class LateEvents(Generic[K]):
    """The late events of one session, each keyed by its segment or language.

    Used on the event loop.
    """

    def __init__(self) -> None:
        self._waiting: dict[K, asyncio.Task[None]] = {}
        self._ready: deque[SessionEvent] = deque()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """The number of events in progress."""
        return len(self._waiting)

    def __contains__(self, of: K) -> bool:
        """Whether the event with this key is in progress."""
        return of in self._waiting

    def add(self, event: SessionEvent) -> None:
        """Yield an event as soon as possible."""
        self._ready.append(event)
        self._changed.set()

    def start(
        self, of: K, making: Callable[[], Coroutine[None, None, SessionEvent | None]], name: str
    ) -> None:
        """Add the event that `making` returns; it must end, and not raise.

        It may return None, if it has added its events itself.
        """

        async def make() -> None:
            event = await making()
            del self._waiting[of]
            if event is not None:
                self.add(event)
            self._changed.set()

        self._waiting[of] = asyncio.create_task(make(), name=name)

    async def merged(
        self,
        events: AsyncGenerator[SessionEvent, None],
        seen: Callable[[SessionEvent], SessionEvent],
        lost: Callable[[K, Last], Sequence[SessionEvent]],
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events, as `seen` returns them, and the late ones.

        Done waits for all events in progress. Another last event cancels them, and `lost` returns
        their replacements.
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
            finally:  # the generator cannot be closed while a task waits for its next event
                await cancelled([*self._waiting.values(), *([following] if following else [])])

    async def _either(self, following: asyncio.Task[SessionEvent | None]) -> bool:
        """Wait for the next event or for a late one; return whether it is the former."""
        following.add_done_callback(self._wake)
        await self._changed.wait()
        self._changed.clear()
        following.remove_done_callback(self._wake)
        return following.done()

    def _wake(self, _task: object) -> None:
        self._changed.set()

    async def _rest(
        self, event: Last, lost: Callable[[K, Last], Sequence[SessionEvent]]
    ) -> AsyncGenerator[SessionEvent, None]:
        if not isinstance(event, SessionDone):
            late = list(self._waiting)
            await cancelled(list(self._waiting.values()))
            self._waiting.clear()
            for of in late:
                for instead in lost(of, event):
                    self.add(instead)
        while self._waiting or self._ready:
            if self._ready:
                yield self._ready.popleft()
                continue
            await self._changed.wait()
            self._changed.clear()


async def _next(events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
    return await anext(events, None)
