"""What one client may use at a time, and per minute. Pure but for the clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from auricle.errors import RateLimited, TooLarge
from auricle.frontend.access.keys import ApiKey

_SESSION_RETRY_SECONDS = 5.0


@dataclass
class Client:
    """One tenant's use of this frontend. `charge` what is heard, within `session`s."""

    key: ApiKey
    clock: Callable[[], float] = time.monotonic
    _sessions: int = 0
    _budget: AudioBudget | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        rate = self.key.audio_minutes_per_minute
        self._budget = None if rate is None else AudioBudget(rate, self.clock)

    @property
    def tenant(self) -> str:
        """Whose audio this is."""
        return self.key.name

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[None, None]:
        """A live session or a recording. Raises RateLimited if the client has too many."""
        limit = self.key.max_sessions
        if limit is not None and self._sessions >= limit:
            raise RateLimited(
                f"{self.tenant} has {limit} sessions open, which is its limit; end one first",
                _SESSION_RETRY_SECONDS,
            )
        if self._budget is not None:
            self._budget.check(self.tenant)
        self._sessions += 1
        try:
            yield
        finally:
            self._sessions -= 1

    async def charge(self, seconds: float) -> None:
        """So much live audio was heard; waits until the client's rate allows more."""
        if (wait := self.spend(seconds)) > 0:
            await asyncio.sleep(wait)

    def spend(self, seconds: float) -> float:
        """So much audio was heard; returns for how many seconds the rate is exceeded."""
        return 0.0 if self._budget is None else self._budget.spend(seconds)

    def check_size(self, size: int, limit: int) -> None:
        """Raise TooLarge for a request beyond the server's `limit` or the client's own."""
        own = self.key.max_request_bytes
        allowed = limit if own is None else min(limit, own)
        if size > allowed:
            raise TooLarge(
                f"the request is larger than the {allowed} bytes it may have; "
                "compress the audio (FLAC, Opus) or send it in parts"
            )


class AudioBudget:
    """A token bucket of audio that may be overdrawn: what is heard cannot be unheard.

    It holds one minute's worth. New sessions are refused while it is overdrawn, and
    running ones are held back.
    """

    def __init__(self, minutes_per_minute: float, clock: Callable[[], float]) -> None:
        self._rate = minutes_per_minute  # seconds of audio per second
        self._clock = clock
        self._left = self._capacity = minutes_per_minute * 60.0
        self._at = clock()

    def check(self, tenant: str) -> None:
        """Raises RateLimited saying when there is audio again."""
        wait = self.spend(0.0)
        if wait > 0.0:
            raise RateLimited(
                f"{tenant} has used its {self._rate:g} minutes of audio per minute", wait
            )

    def spend(self, seconds: float) -> float:
        """Take `seconds` of audio; returns for how many seconds the bucket is overdrawn."""
        now = self._clock()
        self._left = min(self._capacity, self._left + (now - self._at) * self._rate) - seconds
        self._at = now
        return max(0.0, -self._left / self._rate)


class Clients:
    """The clients seen so far; there are as many as keys."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}

    def of(self, key: ApiKey) -> Client:
        """The client that `key` belongs to."""
        if key.name not in self._clients:
            self._clients[key.name] = Client(key)
        return self._clients[key.name]
