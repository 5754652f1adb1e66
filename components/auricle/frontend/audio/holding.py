"""Audio is held back until it is enough for a decision, or until no more audio follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# The wait for a live client's next packet: without it its audio would be processed more often than
# necessary. In real time the longest tick (160 ms) is full before 250 ms.
_QUIET_SECONDS = 0.06
_LONGEST_SECONDS = 0.25
# A loop that is late runs its timers before it reads the data that arrived meanwhile.
_UNREAD_SECONDS = 0.001


class HoldTimer:
    """Calls `due` if no packet has followed the held audio for too long.

    That is 60 ms, or twice the time between the last two packets if that is more, but never later
    than 250 ms after the first held packet. Packets with longer gaps are not waited for. Call
    methods on the event loop. There is one timer at most, and none while nothing is held.
    """

    def __init__(self, due: Callable[[], None]) -> None:
        self._due = due
        self._first: float | None = None
        self._last = 0.0
        self._quiet = _QUIET_SECONDS
        self._reads = False  # data that has arrived is read first, then the audio is due
        self._timer: asyncio.Handle | None = None

    def held(self) -> None:
        """More audio has arrived, and some of it is held."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = 2 * (now - self._last)
        self._quiet = late if _QUIET_SECONDS < late < _LONGEST_SECONDS else _QUIET_SECONDS
        self._last = now
        if self._first is None:
            self._first = now
            if self._timer is None:
                self._timer = loop.call_later(_QUIET_SECONDS, self._check)

    def released(self) -> None:
        """More audio has arrived, and none of it is held."""
        self._last = asyncio.get_running_loop().time()
        self._first = None

    def close(self) -> None:
        """Cancel the timer."""
        self._first = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._first is None:
            self._reads = False
            return
        loop = asyncio.get_running_loop()
        left = min(self._last + self._quiet, self._first + _LONGEST_SECONDS) - loop.time()
        if left > 0:
            self._reads = False
            self._timer = loop.call_later(min(left, _QUIET_SECONDS), self._check)
        elif not self._reads:
            self._reads = True
            self._timer = loop.call_later(_UNREAD_SECONDS, self._check)
        else:
            self._reads = False
            self._first = None
            self._due()


class Holding:
    """Passes on the audio that one session holds back.

    All work on the audio is done within `async with`, one after the other; `run` is a task of its
    own, next to the client's reader.
    """

    def __init__(self, holds: Callable[[], bool], pass_on: Callable[[], Awaitable[None]]) -> None:
        """`pass_on` processes the held audio, if the session `holds` any; see also `wake`."""
        self._holds = holds
        self._pass_on = pass_on
        self._lock = asyncio.Lock()
        self._due = asyncio.Event()
        self._timer = HoldTimer(self._due.set)
        self._closed = False

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._due.clear()
        if self._holds() and not self._closed:
            self._timer.held()
        else:
            self._timer.released()
        self._lock.release()

    def wake(self) -> None:
        """Let `run` call `pass_on` soon, unless audio comes before."""
        if not self._closed:
            self._due.set()

    @property
    def busy(self) -> bool:
        """Whether audio is being processed, so that the session's state is not known yet."""
        return self._lock.locked()

    async def run(self) -> None:
        """Pass on held audio whenever it is due. Raises the errors of `pass_on`."""
        try:
            while True:
                await self._due.wait()
                async with self:
                    if self._due.is_set():
                        await self._pass_on()
        finally:
            self._timer.close()

    def close(self) -> None:
        """The audio has ended: audio that is still held is dropped."""
        self._closed = True
        self._due.clear()
        self._timer.close()
