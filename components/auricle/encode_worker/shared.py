"""Encodings under way, each shared by all requests that want its window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from auricle.encode_worker.passes import Job, Stored, Wanted
from auricle.encode_worker.store import Reservation


class _Encoding:
    """The future of a window's slot, and the number of requests that are not done with it."""

    def __init__(self, future: asyncio.Future[Stored], wanted: Wanted) -> None:
        self.future = future
        self.wanted = wanted
        self.wanted_by = 0
        self.over = False


class SharedEncodings:
    """One encoding per window. `let_go` is called for each slot once nobody wants it any more.

    All methods must be called on one event loop.
    """

    def __init__(self, let_go: Callable[[Reservation], None]) -> None:
        self._let_go = let_go
        self._running: dict[str, _Encoding] = {}

    @contextmanager
    def joined(
        self, jobs: Sequence[Job], submit: Callable[[Job], asyncio.Future[Stored]]
    ) -> Iterator[list[asyncio.Future[Stored]]]:
        """Yield the future of each job's slot; the slots are kept until the block ends.

        A window that no other request has submitted is submitted now. Shield the futures when
        you await them: others may await them too. Raises whatever `submit` raises.
        """
        joined: list[_Encoding] = []
        try:
            for job in jobs:
                encoding = self._running.get(job.window.key) or self._begun(job, submit(job))
                encoding.wanted_by += 1
                encoding.wanted.now = True
                joined.append(encoding)
            yield [encoding.future for encoding in joined]
        finally:
            for encoding in joined:
                encoding.wanted_by -= 1
                encoding.wanted.now = encoding.wanted_by > 0
                self._settle(encoding)

    def _begun(self, job: Job, future: asyncio.Future[Stored]) -> _Encoding:
        key = job.window.key
        self._running[key] = encoding = _Encoding(future, job.wanted)
        future.add_done_callback(lambda _: self._end(key, encoding))
        return encoding

    def _end(self, key: str, encoding: _Encoding) -> None:
        # From now on nobody can join: the window is found in the slab, or is encoded again.
        del self._running[key]
        encoding.over = True
        self._settle(encoding)

    def _settle(self, encoding: _Encoding) -> None:
        """Let the slot go if the encoding is over and this was the last who wanted it."""
        if not encoding.over or encoding.wanted_by:
            return
        future = encoding.future
        if future.cancelled() or future.exception() is not None:
            return
        if isinstance(stored := future.result(), Reservation):
            self._let_go(stored)
