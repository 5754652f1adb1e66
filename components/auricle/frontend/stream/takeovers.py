"""A session has one connection to a frontend: the newest. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Takeovers:
    """The sessions that are served, by the names that their clients know.

    A client that resumes may have left a connection that still looks alive here. And a token may
    be sent on many connections at once, past admission by load. Call it on one event loop.
    """

    def __init__(self) -> None:
        self._served: dict[str, asyncio.Event] = {}

    @contextmanager
    def serving(self, session: str) -> Iterator[asyncio.Event]:
        """Take the session over from an older connection.

        The event is set when a newer one takes it over from this one.
        """
        if (older := self._served.get(session)) is not None:
            older.set()
        taken_over = self._served[session] = asyncio.Event()
        try:
            yield taken_over
        finally:
            if self._served.get(session) is taken_over:
                del self._served[session]
