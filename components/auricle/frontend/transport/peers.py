"""The frontends of a deployment: limits of keys that hold over all of them, and sessions that move.

Each frontend counts its own clients. Before a session of a limited key begins, its frontend counts
it as waiting, with a ticket, and asks the others. Each of them has then seen the ticket, and gives
its next session a later one; so of two sessions that begin at the same time at least one counts
the other, and all together never exceed the limit. A frontend that does not answer is not counted:
its clients are to be served by the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from auricle.core.aio import with_timeout
from auricle.core.errors import AuricleError, DeadlineExceeded, RateLimited
from auricle.protocol.frontends import AskUse, KeyUse

log = logging.getLogger(__name__)

# A frontend that does not answer within this time hangs, and is not asked for the next 12 s
# (`RemoteEndpoint.suspect`). A session that moves waits less, because its client was served before.
_ANSWER_SECONDS = 5.0
_RESUMING_SECONDS = 1.0
# A session that was taken over leaves its older connection within this time.
_LEAVING_SECONDS = 0.5
_AUDIO_SECONDS = 1.0
_MOST_FOLLOWED = 20  # frontends a second, in turn: the cost of one does not grow with their number
_RETRY_SECONDS = 5.0
Ticket = tuple[int, int]  # its number, and the frontend's instance id


class PeerEndpoint(Protocol):
    """The part of `RemoteEndpoint` that is used here."""

    async def instances(self) -> list[int]: ...

    def known(self) -> list[int]: ...

    def suspected(self, instance: int) -> bool: ...

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> KeyUse: ...


@dataclass
class _Use:
    """One tenant's live sessions and recordings here: the number of those that have begun, and the
    tickets of those that wait for the other frontends' answers."""

    begun: int = 0
    waiting: set[int] = field(default_factory=set)


@dataclass
class _Served:
    """A session here, by the connection with the newest ticket."""

    ticket: Ticket
    taken_over: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class Peers:
    """The other frontends, and the use of keys at all of them. Call it on one event loop.

    Before `join` it calls no other frontend.
    """

    def __init__(self) -> None:
        self._endpoint: PeerEndpoint | None = None
        self._own = 0
        self._number = 0
        self._uses: defaultdict[str, _Use] = defaultdict(_Use)
        self._audio: defaultdict[str, float] = defaultdict(float)
        self._heard: dict[int, Mapping[str, float]] = {}  # by frontend, the audio charged there
        self._served: dict[str, _Served] = {}

    def join(self, endpoint: PeerEndpoint, own: int) -> None:
        """Ask the frontends that serve `endpoint`, where this one is the instance `own`."""
        self._endpoint, self._own = endpoint, own

    async def answer(self, ask: AskUse) -> KeyUse:
        """Answer another frontend."""
        self._number = max(self._number, ask.ticket)
        ticket = ask.ticket, ask.frontend
        served = self._served.get(ask.resumed)
        if served is not None and served.ticket < ticket:
            await self._end(served)
        return KeyUse(self._own, self._before(ask.tenant, ticket), dict(self._audio))

    # ── sessions and recordings of a key ────────────────────────────────────

    @asynccontextmanager
    async def place(
        self, tenant: str, limit: int | None, *, resumes: bool = False
    ) -> AsyncGenerator[None, None]:
        """Count a session or recording of `tenant` while the block runs.

        Raises RateLimited if it has `limit` at all frontends already. One that `resumes` is let in:
        `serving` checks the limit once its older connection has ended.
        """
        ticket, use = self._ticket(), self._uses[tenant]
        use.waiting.add(ticket[0])
        try:
            if limit is not None and not resumes:
                await self._check(tenant, ticket, limit)
        except BaseException:
            use.waiting.discard(ticket[0])
            self._forget(tenant)
            raise
        use.waiting.discard(ticket[0])
        use.begun += 1
        try:
            yield
        finally:
            use.begun -= 1
            self._forget(tenant)

    async def _check(self, tenant: str, ticket: Ticket, limit: int) -> None:
        """Ask the others, unless the limit is reached here. Raises RateLimited."""
        before = self._before(tenant, ticket)
        if before < limit:
            # Whoever begins here meanwhile has a later ticket, and counts this one.
            answers = await self._ask(AskUse(self._own, ticket[0], tenant), await self._others())
            before += sum(one.sessions for one in answers)
        if before >= limit:
            raise _too_many(limit)

    def _forget(self, tenant: str) -> None:
        use = self._uses.get(tenant)
        if use is not None and not use.begun and not use.waiting:
            del self._uses[tenant]

    def _ticket(self) -> Ticket:
        self._number += 1
        return self._number, self._own

    def _before(self, tenant: str, ticket: Ticket) -> int:
        """Return the sessions here that have begun, or wait with an earlier ticket."""
        if (use := self._uses.get(tenant)) is None:
            return 0
        return use.begun + sum((number, self._own) < ticket for number in use.waiting)

    # ── sessions that move ──────────────────────────────────────────────────

    @asynccontextmanager
    async def serving(
        self, session: str, tenant: str, limit: int | None, *, resumes: bool
    ) -> AsyncGenerator[asyncio.Event, None]:
        """Serve the session that its client calls `session` while the block runs.

        The event is set when a newer connection resumes it, here or at another frontend. If this
        one `resumes`, an older connection ends first, wherever it is. Raises RateLimited if the
        tenant then has more than `limit` sessions and recordings at all frontends.

        A client that resumes may have left a connection that still looks alive; and a token may be
        sent on many connections at once, past admission by load.
        """
        older = self._served.get(session)
        served = self._served[session] = _Served(self._ticket())
        try:
            if older is not None:
                await self._end(older)
            if resumes:
                ask = AskUse(self._own, served.ticket[0], tenant, session)
                answers = await self._ask(ask, await self._others(), _RESUMING_SECONDS)
                number = self._before(tenant, served.ticket) + sum(one.sessions for one in answers)
                if limit is not None and number > limit:
                    raise _too_many(limit)
            yield served.taken_over
        finally:
            served.gone.set()
            if self._served.get(session) is served:
                del self._served[session]

    async def _end(self, served: _Served) -> None:
        served.taken_over.set()
        with suppress(DeadlineExceeded):
            await with_timeout(_LEAVING_SECONDS, served.gone.wait(), "leaving")

    # ── the audio of keys ───────────────────────────────────────────────────

    def charged(self, tenant: str, seconds: float) -> None:
        """Count audio of a tenant with an audio rate, for the other frontends."""
        self._audio[tenant] += seconds

    async def follow(self, rated: Callable[[], bool], charge: Callable[[str, float], None]) -> None:
        """Follow the other frontends, until cancelled.

        While any key is `rated`, `charge` is called with a tenant and the seconds of its audio that
        were charged elsewhere: about once a second, less often with more than 20 others.
        """
        assert self._endpoint is not None
        turn = 0
        while True:
            listed = await self._endpoint.instances()  # connects: `_others` then has them
            for gone in self._heard.keys() - set(listed):
                del self._heard[gone]
            others = await self._others()
            if rated() and others:
                turn %= len(others)
                followed = [*others[turn:], *others[:turn]][:_MOST_FOLLOWED]
                turn += len(followed)
                for answer in await self._ask(AskUse(self._own), followed):
                    for tenant, seconds in self._new(answer):
                        charge(tenant, seconds)
            await asyncio.sleep(_AUDIO_SECONDS)

    def _new(self, answer: KeyUse) -> list[tuple[str, float]]:
        """Return the audio since a frontend's last answer; its first one begins the count."""
        audio = answer.audio_seconds
        before = self._heard.get(answer.frontend, audio)
        self._heard[answer.frontend] = audio
        grown = {tenant: seconds - before.get(tenant, 0.0) for tenant, seconds in audio.items()}
        return [(tenant, seconds) for tenant, seconds in grown.items() if seconds > 0]

    async def _others(self) -> list[int]:
        """Return the other frontends that answer, as far as is known."""
        endpoint = self._endpoint
        if endpoint is None or not endpoint.known():
            return []
        instances = await endpoint.instances()
        return [one for one in instances if one != self._own and not endpoint.suspected(one)]

    async def _ask(
        self, ask: AskUse, others: Sequence[int], seconds: float = _ANSWER_SECONDS
    ) -> list[KeyUse]:
        """Return the answers of the frontends that answer within `seconds`."""
        answers = await asyncio.gather(*(self._one(ask, other, seconds) for other in others))
        return [answer for answer in answers if answer is not None]

    async def _one(self, ask: AskUse, other: int, seconds: float) -> KeyUse | None:
        assert self._endpoint is not None
        try:
            return await self._endpoint.call(ask, KeyUse, other, seconds)
        except AuricleError as error:
            log.warning("the sessions of frontend %x are not counted: %s", other, error)
            return None


def _too_many(limit: int) -> RateLimited:
    return RateLimited(
        f"this API key has {limit} sessions open, which is its limit; end one first", _RETRY_SECONDS
    )
