"""Calls to an endpoint of another component."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from auricle.core.aio import with_timeout
from auricle.core.errors import (
    AuricleError,
    DeadlineExceeded,
    OtherWireVersion,
    WorkerUnavailable,
    from_code,
)
from auricle.dynamo.incompatible import Incompatible
from auricle.dynamo.inotify import explained
from auricle.dynamo.local.client import LocalCall, LocalCalls
from auricle.dynamo.signing import Signer
from auricle.dynamo.wire import encoded, from_wire, sealed_to_wire
from auricle.protocol import WIRE
from auricle.protocol.control import Alive, AskAlive, Refusal

log = logging.getLogger(__name__)


class PlaneCall:
    """A call in progress on Dynamo's request plane: iterate over its replies."""

    def __init__(self, replies: AsyncIterator[Any], context: Any) -> None:
        self._replies = replies
        self._context = context

    @classmethod
    async def begun(cls, client: Any, wire: dict[str, Any], instance: int) -> PlaneCall:
        """Send a request to an instance of the endpoint that `client` calls.

        If the caller is cancelled while the request is being opened, opening continues and the
        request is stopped then. If it were dropped midway, the other side would never learn that
        its caller has gone.
        """
        from dynamo.runtime import Context

        context = Context()
        sending = client.direct(wire, instance, annotated=False, context=context)
        opening = asyncio.ensure_future(sending)
        try:
            return cls(await asyncio.shield(opening), context)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: _stop(done, context))
            raise

    def __aiter__(self) -> AsyncIterator[Any]:
        return aiter(self._replies)

    def stop(self) -> None:
        """End the call; the other side cancels the request."""
        self._context.stop_generating()


def _stop(opened: asyncio.Future[Any], context: Any) -> None:
    if not opened.cancelled() and opened.exception() is None:
        context.stop_generating()


# A dead worker's record stays in discovery for 11.6 s (file) to Common.etcd_lease_seconds. Calling
# it again costs milliseconds.
QUARANTINE_SECONDS = 12.0
_ASK_SECONDS = 1.0


@dataclass
class Quarantine:
    """Instances that calls could not reach, which are avoided while others are available.

    Without others, they are probed: callers must not wait for a dead process, but should use one at
    once that only lost its connections. No I/O; time is an argument.
    """

    _until: dict[int, float] = field(default_factory=dict)
    _asked: dict[int, float] = field(default_factory=dict)

    def add(self, instance: int, now: float) -> None:
        """A call has failed: leave the instance out for 12 s."""
        self._until[instance] = now + QUARANTINE_SECONDS

    def release(self, instance: int) -> None:
        """The instance has answered."""
        self._until.pop(instance, None)

    def free(self, instances: Iterable[int], now: float) -> list[int]:
        """Return the `instances` that are not in quarantine."""
        self._until = {i: until for i, until in self._until.items() if until > now}
        return [i for i in instances if i not in self._until]

    def to_ask(self, instances: Iterable[int], now: float) -> list[int]:
        """Return the `instances` in quarantine that were not probed in the last second.

        They count as probed, so that one of several waiting callers probes them.
        """
        self._asked = {i: at for i, at in self._asked.items() if now - at < _ASK_SECONDS}
        due = [i for i in instances if i in self._until and i not in self._asked]
        self._asked |= dict.fromkeys(due, now)
        return due


# How long an instance is avoided that hangs or fails requests.
_SUSPECT_SECONDS = 12.0
_ANSWER_SECONDS = 1.0
_INSTANCE_POLL_SECONDS = 0.1
# Discovery reports instances to a new client one by one.
_FOLLOWING_SECONDS, _FIRST_SECONDS, _FURTHER_SECONDS = 5.0, 2.0, 0.5
# A time-out after less than this reflects the caller's deadline, not a hung instance.
_TELLING_SECONDS = 5.0


def receiver(path: str, instance: int) -> str:
    """Return the name of one instance of the endpoint `path`, for which requests are sealed."""
    return f"{path}/{instance:x}"


class RemoteEndpoint:
    """An endpoint of another component, callable on each of its instances.

    All methods must be called on the event loop of the `Runtime`.
    """

    def __init__(
        self,
        endpoint: Any,
        path: str,
        sealer: Signer,
        alive: RemoteEndpoint | None = None,
        local: LocalCalls | None = None,
        incompatible: Incompatible | None = None,
    ) -> None:
        """`path` is the endpoint's name; `sealer` seals the requests. `alive` is the endpoint of
        the same component that answers AskAlive. With `local`, instances on this machine are
        called over their sockets. `incompatible` ones are not listed; without it, the endpoint
        accepts requests of all versions of the wire."""
        self._endpoint = endpoint
        self._path = path
        self._sealer = sealer
        self._client: Any = None
        self._alive = alive
        self._local = local
        self._incompatible = incompatible
        self._quarantine = Quarantine()
        self._suspected: dict[int, float] = {}

    def suspect(self, instance: int) -> None:
        """Avoid the instance for 12 s if others are available: it hangs, or fails requests."""
        self._suspected[instance] = time.monotonic() + _SUSPECT_SECONDS

    def suspected(self, instance: int) -> bool:
        """Whether `suspect` was called in the last 12 s."""
        return self._suspected.get(instance, 0.0) > time.monotonic()

    async def others(self, instance: int) -> list[int]:
        """Return the other usable instances, without suspected ones."""
        return [i for i in await self.instances() if i != instance and not self.suspected(i)]

    async def _connected(self) -> Any:
        if self._client is None:
            try:
                self._client = await self._endpoint.client()
            except Exception as error:  # Dynamo's, which has no type of its own
                raise explained(error) from None
        return self._client

    async def wait_for_instances(self, seconds: float) -> None:
        """Wait until discovery lists an instance; raises DeadlineExceeded after `seconds`."""
        client = await self._connected()
        await with_timeout(seconds, client.wait_for_instances(), "an instance")

    async def wait_for(self, instance: int, seconds: float) -> None:
        """Wait until discovery has reported the instance to this client.

        Raises WorkerUnavailable after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not await self.lists(instance):
            if time.monotonic() > deadline:
                raise WorkerUnavailable(f"instance {instance:x} is not listed")
            await asyncio.sleep(_INSTANCE_POLL_SECONDS)

    async def lists(self, instance: int) -> bool:
        """Whether discovery lists the instance, as far as this process has heard."""
        client = await self._connected()
        return instance in client.instance_ids()

    def known(self) -> list[int]:
        """Return all instances that discovery has reported; none before `listed` was called."""
        return [] if self._client is None else list(self._client.instance_ids())

    async def instances(self) -> list[int]:
        """Return the instances in discovery, except those whose calls failed in the last 12 s."""
        return self._quarantine.free(self._compatible(await self._connected()), time.monotonic())

    def _compatible(self, client: Any) -> list[int]:
        listed = client.instance_ids()
        return list(listed) if self._incompatible is None else self._incompatible.without(listed)

    async def listed(self) -> list[int]:
        """Return the instances in discovery, also those whose calls failed.

        The first call of a client waits for up to 2 s for the first one, and then until no
        further one has come for half a second. Raises WorkerUnavailable if discovery cannot be
        followed, DeadlineExceeded after 5 s without an answer of it.
        """
        new = self._client is None
        try:
            client = await with_timeout(_FOLLOWING_SECONDS, self._connected(), "discovery")
        except DeadlineExceeded:
            raise
        except Exception as error:  # Dynamo has no error types of its own
            log.warning("discovery cannot be followed: %s", error)
            raise WorkerUnavailable("discovery cannot be followed; see the log") from None
        if new:
            with suppress(DeadlineExceeded):
                await self.wait_for_instances(_FIRST_SECONDS)
            known = -1
            while len(client.instance_ids()) > known:
                known = len(client.instance_ids())
                await asyncio.sleep(_FURTHER_SECONDS)
        return self._compatible(client)

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        """Return the instances that can be called.

        Instances in `avoid`, suspected ones, and instances whose calls failed are left out while
        others remain. Those whose calls failed return once they answer a probe, or after 12 s.

        Waits up to `seconds` for an instance, as a worker may be restarting; then raises
        WorkerUnavailable. The result is never empty.
        """
        deadline = time.monotonic() + seconds
        while not (usable := await self.instances()):
            if time.monotonic() > deadline:
                raise WorkerUnavailable(
                    f"no instance that accepts version {WIRE} of the wire was running for "
                    f"{seconds:g} s"
                )
            if not await self._asked_again():
                await asyncio.sleep(_INSTANCE_POLL_SECONDS)
        if avoid.issuperset(usable) and await self._asked_again():
            usable = await self.instances()
        self._suspected = {i: t for i, t in self._suspected.items() if self.suspected(i)}
        usable = [i for i in usable if i not in avoid] or usable
        return [i for i in usable if i not in self._suspected] or usable

    async def _asked_again(self) -> bool:
        """Probe instances in quarantine, each at most once a second.

        Instances that answer are released: they only lost connections. Returns whether any was.
        """
        if self._alive is None:
            return False
        listed = self._compatible(await self._connected())
        due = self._quarantine.to_ask(listed, time.monotonic())
        return any(await asyncio.gather(*(self._asked(self._alive, one) for one in due)))

    async def _asked(self, alive: RemoteEndpoint, instance: int) -> bool:
        try:
            await alive.wait_for(instance, _ANSWER_SECONDS)
            await alive.call(AskAlive(), Alive, instance, _ANSWER_SECONDS)
        except AuricleError:
            return False
        log.warning("instance %x answers a probe again; resuming calls to it", instance)
        self._quarantine.release(instance)
        return True

    async def call(self, message: msgspec.Struct, reply: Any, instance: int, seconds: float) -> Any:
        """Send one request and return its reply, decoded as `reply`.

        Raises DeadlineExceeded after `seconds`, WorkerUnavailable if the instance cannot be
        reached or ends without a reply, and any AuricleError that the other side raised.
        Cancellation and time-out cancel the request on the other side.
        """
        # Does not use `stream`: its generator would dominate the cost of a chunk.
        received: Any = None
        ended, call = False, None
        try:
            async with asyncio.timeout(seconds):
                call = await self._begun(message, instance)
                # Read to the end: leaving earlier would cancel the request on the other side.
                async for data in call:
                    received = data
            ended = True
            if received is None:
                raise WorkerUnavailable("the worker ended the request without a reply")
            return self._decoded(received, reply, instance)
        except TimeoutError:
            if seconds >= _TELLING_SECONDS:
                self.suspect(instance)
            what = type(message).__name__
            raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None
        except WorkerUnavailable:
            self.suspect(instance)
            raise
        except (AuricleError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise self._unavailable(message, instance, error) from None
        finally:
            if call is not None and not ended:
                call.stop()

    async def stream(
        self, message: msgspec.Struct, reply: Any, instance: int
    ) -> AsyncGenerator[Any, None]:
        """Send one request and yield its replies, each decoded as `reply`.

        It has no deadline: the caller watches each `anext` (see `Pulses`). Raises WorkerUnavailable
        if the instance cannot be reached or dies, and any AuricleError that the other side raised.
        Closing the iterator cancels the request on the other side.
        """
        ended, call = False, None
        try:
            call = await self._begun(message, instance)
            async for data in call:
                yield self._decoded(data, reply, instance)
            ended = True
        except (AuricleError, asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise self._unavailable(message, instance, error) from None
        finally:
            if call is not None and not ended:
                call.stop()

    async def _begun(self, message: msgspec.Struct, instance: int) -> LocalCall | PlaneCall:
        """Send the request; return the call, whose replies follow."""
        connection = None if self._local is None else await self._local.to(instance)
        sealed = self._sealer.seal(encoded(message), receiver(self._path, instance))
        if connection is not None:
            return await connection.begin(self._path, sealed)
        return await PlaneCall.begun(await self._connected(), sealed_to_wire(sealed), instance)

    def _decoded(self, data: Any, reply: Any, instance: int) -> Any:
        """Decode a reply; raise the error if it is a refusal."""
        try:
            decoded = from_wire(data, _or_refusal(reply))
        except msgspec.ValidationError as error:
            log.error("malformed reply: %s", error)
            raise AuricleError("malformed reply; see the caller's log") from None
        if isinstance(decoded, Refusal):
            if decoded.code == OtherWireVersion.code:
                if self._incompatible is not None:
                    self._incompatible.add(instance, decoded.message)
                raise WorkerUnavailable(f"instance {instance:x}: {decoded.message}")
            raise from_code(
                decoded.code, decoded.message, decoded.keys, decoded.retry_after_seconds
            )
        return decoded

    def _unavailable(
        self, message: msgspec.Struct, instance: int, error: Exception
    ) -> WorkerUnavailable:
        """Quarantine the instance and return the error to raise.

        Dynamo has no error types of its own: the text is "Unavailable: …" for a dead worker, and
        contains "not found" for an unknown instance. It names hosts and ports, so it is logged.
        """
        session = getattr(message, "session", "")
        log.warning("call to instance %x failed, session %s: %s", instance, session, error)
        self._quarantine.add(instance, time.monotonic())
        return WorkerUnavailable(f"instance {instance:x} cannot be reached")


@lru_cache(maxsize=64)
def _or_refusal(reply: Any) -> Any:
    return reply | Refusal
