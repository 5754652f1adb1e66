"""Shares what was gathered among all who look, and says how many may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from auricle.errors import RateLimited
from auricle.frontend.operations.documents import FrontendState, Operations
from auricle.frontend.operations.merging import Gathered, chosen, document
from auricle.messages.views import STEPS_KEPT_SECONDS

EVERY_SECONDS = 2.0
MAX_VIEWERS = 16
_RETRY_SECONDS = 10.0


class Observatory:
    """One frontend's view of its deployment. Nothing happens while nobody asks.

    Who asks has it gathered, unless that was done less than 2 s ago; others wait for the same.
    Use it on one event loop.
    """

    def __init__(
        self,
        gather: Callable[[tuple[str, ...]], Awaitable[Gathered]],
        own: Callable[[], FrontendState],
        keys: Callable[[], bool],
        lags: Callable[[str], Iterable[tuple[int, float]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keys` says whether clients need a key; `lags` are those of a session's texts here."""
        self._gather = gather
        self._own = own
        self._keys = keys
        self._lags = lags
        self._clock = clock
        self._gathering = asyncio.Lock()
        self._last: tuple[float, Gathered] | None = None
        self._chosen: dict[str, float] = {}  # until when
        self._viewers = 0

    @contextmanager
    def viewer(self) -> Iterator[None]:
        """Count one who looks while the block runs. Raises RateLimited beyond 16."""
        if self._viewers >= MAX_VIEWERS:
            raise RateLimited(
                f"{MAX_VIEWERS} pages are open already, the most there may be", _RETRY_SECONDS
            )
        self._viewers += 1
        try:
            yield
        finally:
            self._viewers -= 1

    async def now(self, session: str | None = None) -> Operations:
        """Return the document, with the steps of `session`.

        Raises RateLimited if the steps of 16 other sessions are being looked at.
        """
        if session is not None:
            self._choose(session)
        async with self._gathering:
            if self._last is None or self._clock() - self._last[0] >= EVERY_SECONDS:
                began, names = self._clock(), tuple(self._chosen)
                self._last = (began, await self._gather(names))
            gathered = self._last[1]
        made = document(gathered, self._own(), every_seconds=EVERY_SECONDS, keys=self._keys())
        if session is None:
            return made
        # A session that moved has another name at its processor.
        own = session if self._lags(session) else session.rpartition(".")[0] or session
        found = chosen(gathered.views.values(), session, self._lags(own))
        return msgspec.structs.replace(made, chosen=found)

    def _choose(self, session: str) -> None:
        now = self._clock()
        self._chosen = {name: until for name, until in self._chosen.items() if until > now}
        if session not in self._chosen and len(self._chosen) >= MAX_VIEWERS:
            raise RateLimited(
                f"the steps of {MAX_VIEWERS} other sessions are being looked at", _RETRY_SECONDS
            )
        self._chosen[session] = now + STEPS_KEPT_SECONDS
