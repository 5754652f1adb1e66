"""The calling side of an endpoint of another component."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from auricle.errors import AuricleError, DeadlineExceeded, WorkerUnavailable, from_code
from auricle.messages import Refusal
from auricle.runtime.wire import from_wire, to_wire
from auricle.tasks import within

log = logging.getLogger(__name__)
# A dead worker's record stays in discovery for 11.6 s (file) to 30 s (etcd); trying it
# again costs milliseconds, while leaving out the only worker for long costs sessions.
_QUARANTINE_SECONDS = 12.0
_INSTANCE_POLL_SECONDS = 0.1


class RemoteEndpoint:
    """An endpoint of another component, on any of its instances."""

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint
        self._client: Any = None
        self._quarantined: dict[int, float] = {}

    async def _connected(self) -> Any:
        if self._client is None:
            self._client = await self._endpoint.client()
        return self._client

    async def wait_for_instances(self, seconds: float) -> None:
        """Until at least one instance can be called; raises DeadlineExceeded."""
        client = await self._connected()
        await within(seconds, client.wait_for_instances(), "an instance")

    async def instances(self) -> list[int]:
        """Instances that can be called now, without those seen dead."""
        client = await self._connected()
        now = time.monotonic()
        self._quarantined = {i: t for i, t in self._quarantined.items() if t > now}
        return [i for i in client.instance_ids() if i not in self._quarantined]

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        """Instances that can be called, preferring those not in `avoid`; never empty.

        Waits up to `seconds` for one (a worker may just be starting again), then
        raises WorkerUnavailable.
        """
        deadline = time.monotonic() + seconds
        while not (usable := await self.instances()):
            if time.monotonic() > deadline:
                raise WorkerUnavailable(f"no instance was running for {seconds:g} s")
            await asyncio.sleep(_INSTANCE_POLL_SECONDS)
        return [i for i in usable if i not in avoid] or usable

    async def call(self, message: msgspec.Struct, reply: Any, instance: int, seconds: float) -> Any:
        """One request, one reply, with a deadline; raises what the other side raised."""
        # Without the generator of `stream`: this is most of what a chunk costs.
        from dynamo.runtime import Context

        context = Context()
        received: Any = None
        ended, replies = False, None
        try:
            async with asyncio.timeout(seconds):
                client = await self._connected()
                replies = await _opened(client, to_wire(message), instance, context)
                # To the end: leaving earlier would tell the other side to stop.
                async for data in replies:
                    received = data
            ended = True
            if received is None:
                raise WorkerUnavailable("the worker ended the request without a reply")
            return self._decoded(received, reply)
        except TimeoutError:
            what = type(message).__name__
            raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None
        except (AuricleError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise self._unavailable(instance, error) from None
        finally:
            if replies is not None and not ended:
                context.stop_generating()

    async def stream(
        self, message: msgspec.Struct, reply: Any, instance: int
    ) -> AsyncGenerator[Any, None]:
        """One request, many replies. Closing the iterator stops the other side."""
        from dynamo.runtime import Context

        context = Context()
        ended, replies = False, None
        try:
            client = await self._connected()
            replies = await _opened(client, to_wire(message), instance, context)
            async for data in replies:
                yield self._decoded(data, reply)
            ended = True
        except (AuricleError, asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise self._unavailable(instance, error) from None
        finally:
            if replies is not None and not ended:
                context.stop_generating()

    def _decoded(self, data: Any, reply: Any) -> Any:
        """The reply; raises what the other side raised instead of one."""
        try:
            decoded = from_wire(data, reply | Refusal)
        except msgspec.ValidationError as error:
            raise AuricleError(f"malformed reply: {error}") from None
        if isinstance(decoded, Refusal):
            raise from_code(
                decoded.code, decoded.message, decoded.keys, decoded.retry_after_seconds
            )
        return decoded

    def _unavailable(self, instance: int, error: Exception) -> WorkerUnavailable:
        """The instance is left alone for a while.

        Dynamo has no error types of its own; a dead or vanished worker says "Unavailable: …",
        and an unknown instance is reported as not found.
        """
        log.warning("call to instance %x failed: %s", instance, error)
        self._quarantined[instance] = time.monotonic() + _QUARANTINE_SECONDS
        return WorkerUnavailable(str(error))


async def _opened(client: Any, wire: dict[str, Any], instance: int, context: Any) -> Any:
    """The stream of replies.

    A request that is given up while it is being opened is opened all the same and then
    stopped: dropped half-way, the other side would never hear that its caller has gone.
    """
    opening = asyncio.ensure_future(client.direct(wire, instance, annotated=False, context=context))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(lambda done: _stop(done, context))
        raise


def _stop(opened: asyncio.Future[Any], context: Any) -> None:
    if not opened.cancelled() and opened.exception() is None:
        context.stop_generating()
