"""Whether a client is let in: by this frontend's own bound, then by a processor."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auricle.errors import DeadlineExceeded, Overloaded, WorkerUnavailable
from auricle.frontend.processors import ProcessorEndpoints
from auricle.messages import AdmitSession, Admitted

_ANSWER_SECONDS = 2.0
_RECONNECT_SECONDS = 1.0
_ASKED = 3  # processors, before a client is refused: they share their workers


def about_to_go() -> Overloaded:
    """What a client is told that comes while this frontend leaves."""
    return Overloaded("this server is about to go; connect again", _RECONNECT_SECONDS)


class FrontDoor:
    """Counts this frontend's live sessions, and asks processors about new ones."""

    def __init__(
        self,
        processors: ProcessorEndpoints,
        max_sessions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processors = processors
        self._max_sessions = max_sessions
        self._clock = clock
        self._last_call = math.inf
        self._interrupts: set[Callable[[], None]] = set()
        self._recordings = 0
        self.open = 0

    def leave(self, seconds: float) -> int:
        """Let nobody in any more; segments still open after so long are cut.

        How many sessions and recordings are left; called again and again until none is.
        """
        self._last_call = min(self._last_call, self._clock() + seconds)
        for interrupt in tuple(self._interrupts):
            interrupt()
        return self.open + self._recordings

    @property
    def leaving(self) -> bool:
        """Whether this frontend is about to go: sessions are to end between two segments."""
        return self._last_call < math.inf

    @property
    def last_call(self) -> bool:
        """Whether they are to end even within one."""
        return self._clock() >= self._last_call

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One live session of this frontend. Raises Overloaded if there is no room."""
        if self.leaving:
            raise about_to_go()
        if self.open >= self._max_sessions:
            raise Overloaded(f"all {self._max_sessions} sessions are in use")
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    @contextmanager
    def recording(self) -> Iterator[None]:
        """One recording in work: it is finished before this frontend goes. Raises Overloaded."""
        if self.leaving:
            raise about_to_go()
        self._recordings += 1
        try:
            yield
        finally:
            self._recordings -= 1

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While this frontend is about to go, `interrupt` is called again and again, so that
        a session looks whether it is to end now, whether or not its client says anything."""
        self._interrupts.add(interrupt)
        try:
            yield
        finally:
            self._interrupts.discard(interrupt)

    async def stretch(self, tenant: str) -> int:
        """What a new session's cadence is multiplied by. Raises Overloaded.

        Where no processor answers the session is let in: it waits for one.
        """
        refused: Overloaded | None = None
        found = await self._processors.admit.instances()
        instances = self._processors.loads.staying(found)
        for instance in random.sample(instances, min(_ASKED, len(instances))):
            try:
                reply: Admitted = await self._processors.admit.call(
                    AdmitSession(tenant), Admitted, instance, _ANSWER_SECONDS
                )
            except Overloaded as error:
                refused = error
            except (WorkerUnavailable, DeadlineExceeded):
                continue
            else:
                return reply.stretch
        if refused is not None:
            raise refused
        return 1
