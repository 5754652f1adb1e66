"""Limits of one client: concurrent sessions, audio rate, request size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from auricle.core.errors import AuricleError, RateLimited, TooLarge, Unauthorized
from auricle.frontend.transport.access.keys import ANYONE, ApiKey, Scope, utc_now
from auricle.frontend.transport.peers import Peers
from auricle.frontend.transport.slots import ConcurrencyLimit, RateLimiter, TokenBucket

_LONGEST_SLEEP_SECONDS = 1.0


@dataclass
class ClientAccount:
    """One key's use of the frontends. Its methods must be called on one event loop.

    The limits of sessions and of audio hold over all frontends, see `peers`. A caller opens a
    `session` and calls `charge` or `spend` for the audio processed in it. There are `others` if
    further tenants may have live sessions.
    """

    key: ApiKey
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = utc_now
    others: bool = False
    peers: Peers = field(default_factory=Peers)
    _stays: set[Stay] = field(init=False, default_factory=set)
    _withdrawn: bool = field(init=False, default=False)
    _budget: TokenBucket | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._take_rate()

    @property
    def tenant(self) -> str:
        return self.key.name

    def fairness_key(self, host: str) -> str:
        """Return the name under which this client shares capacity: the tenant, or without keys the
        host."""
        return host if self.key is ANYONE else self.tenant

    @asynccontextmanager
    async def session(
        self, scope: Scope | None = None, *, resumes: bool = False
    ) -> AsyncGenerator[Stay, None]:
        """Count a live session or a recording while the block runs; see `Peers.place`.

        Yields its stay, by which it can be ended. Raises RateLimited if the client has too many, or
        has exceeded its audio rate. The block is cancelled, and Unauthorized or Forbidden raised,
        once the key may no longer be used.
        """
        if (refusal := self._refusal(scope)) is not None:
            raise refusal
        async with self.peers.place(self.tenant, self.key.max_sessions, resumes=resumes):
            if self._budget is not None and (wait := self._budget.wait()) > 0:
                used = (
                    f"this API key has used its {self._budget.rate:g} minutes of audio per minute"
                )
                raise RateLimited(used, wait)
            async with self.connected(scope) as stay:
                yield stay

    @asynccontextmanager
    async def connected(self, scope: Scope | None = None) -> AsyncGenerator[Stay, None]:
        """Be a connection of this client while the block runs; it counts as no session.

        Yields its stay. The block is cancelled, and Unauthorized or Forbidden raised, once the key
        may no longer be used.
        """
        if (refusal := self._refusal(scope)) is not None:
            raise refusal
        async with Stay(scope).among(self._stays) as stay:
            yield stay

    def review(self, key: ApiKey | None) -> int:
        """Take over the key's entry as it is now, None if it was withdrawn.

        Returns how many sessions end because of that, or because the key has expired.
        """
        self._withdrawn = key is None
        if key is not None and key != self.key:
            self.key = key
            self._take_rate()
        ended = 0
        for stay in self._stays:
            if (refusal := self._refusal(stay.scope)) is not None:
                ended += stay.end(refusal)
        return ended

    @property
    def idle(self) -> bool:
        """Whether this object can be dropped: its key is withdrawn and it has no connection."""
        return self._withdrawn and not self._stays

    def _refusal(self, scope: Scope | None) -> AuricleError | None:
        if self._withdrawn:
            return Unauthorized("this API key was withdrawn")
        return self.key.refusal(scope, self.now())

    def _take_rate(self) -> None:
        """Hold a minute's allowance of audio, in seconds. Overdrawn, it slows sessions down."""
        rate = self.key.audio_minutes_per_minute
        if rate is None:
            self._budget = None
        elif self._budget is None:
            self._budget = TokenBucket(rate, 60.0 * rate, self.clock)
        else:
            self._budget.change(rate, 60.0 * rate)

    async def charge(self, seconds: float) -> None:
        """Count `seconds` of live audio; waits until the client's audio rate allows more."""
        wait = self.spend(seconds)
        while wait > 0:
            # The rate may change meanwhile.
            await asyncio.sleep(min(wait, _LONGEST_SLEEP_SECONDS))
            wait = self.spend(0.0)

    def spend(self, seconds: float) -> float:
        """Count `seconds` of audio; return the seconds until the audio rate allows more."""
        if self._budget is None:
            return 0.0
        wait = self._budget.wait(seconds)
        self._budget.take(seconds)
        self.peers.charged(self.tenant, seconds)
        return wait

    def charged_elsewhere(self, seconds: float) -> None:
        """Count audio that another frontend has charged to this key."""
        if self._budget is not None:
            self._budget.take(seconds)

    def check_size(self, size: int, limit: int) -> None:
        """Raise TooLarge for a request beyond the server's `limit` or the client's own."""
        own = self.key.max_request_bytes
        allowed = limit if own is None else min(limit, own)
        if size > allowed:
            raise TooLarge(
                f"the request is larger than the {allowed} bytes it may have; "
                "compress the audio (FLAC, Opus) or send it in parts"
            )


class Stay:
    """One session, from the time it is counted; it can be ended from outside."""

    def __init__(self, scope: Scope | None) -> None:
        self.scope = scope
        self._limit = asyncio.timeout(None)
        self._reason: AuricleError | None = None

    @asynccontextmanager
    async def among(self, stays: set[Stay]) -> AsyncGenerator[Stay, None]:
        """Be one of `stays` while the block runs. Raises what `end` was called with."""
        try:
            async with self._limit:
                stays.add(self)
                try:
                    yield self
                finally:
                    stays.discard(self)
        except TimeoutError:
            if self._limit.expired() and self._reason is not None:
                raise self._reason from None
            raise

    def end(self, reason: AuricleError) -> bool:
        """Cancel the block, unless that was done before; return whether it was done now."""
        if self._reason is not None:
            return False
        self._reason = reason
        self._limit.reschedule(asyncio.get_running_loop().time())
        return True


class Clients:
    """The clients seen so far, at most one per key."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._clients: dict[tuple[str, str], ClientAccount] = {}

    def of(self, key: ApiKey, *, others: bool = False) -> ClientAccount:
        """Return the client of a key. With `others` further tenants may have live sessions."""
        name = (key.name, key.sha256)
        if name not in self._clients:
            self._clients[name] = ClientAccount(key, peers=self._peers)
        self._clients[name].others = others
        return self._clients[name]

    def review(self, current: Callable[[ApiKey], ApiKey | None]) -> int:
        """Review all clients, each with its key's present entry: see `ClientAccount.review`."""
        ended = 0
        for name, client in list(self._clients.items()):
            ended += client.review(current(client.key))
            if client.idle:
                del self._clients[name]
        return ended


class KeyLimits:
    """Limits of sessions and recordings of a tenant; 0 is none. Call it on one event loop."""

    def __init__(
        self,
        connections: int = 0,
        per_second: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = ConcurrencyLimit(connections, "sessions and recordings")
        self._rates = RateLimiter(per_second, "sessions and recordings", clock)

    @contextmanager
    def one(self, client: ClientAccount) -> Iterator[None]:
        """Count a session or recording while the block runs. Raises RateLimited."""
        if client.key is ANYONE:
            yield
            return
        self._rates.spend(client.tenant)
        with self._connections.one(client.tenant):
            yield
