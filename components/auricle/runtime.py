"""Dynamo, imported here and nowhere else: serve endpoints, call them, start and stop cleanly.

Everything is "one message in, one message or a stream of messages out".
Errors of auricle's tree cross the wire as `Refusal` and come out as themselves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from auricle.errors import AuricleError, BadRequest, WorkerUnavailable, from_code
from auricle.messages import Refusal, from_wire, to_wire
from auricle.settings import CommonSettings
from auricle.status import report_status
from auricle.tasks import TaskOwner, within

log = logging.getLogger(__name__)
# A dead worker's record stays in discovery for 11.6 s (file) to 30 s (etcd); trying it
# again costs milliseconds, while leaving out the only worker for long costs sessions.
_QUARANTINE_SECONDS = 12.0
_DRAIN_SECONDS = 10.0
# Requests go point to point; NATS, where configured, carries events only.
_REQUEST_PLANE = "tcp"
_INSTANCE_POLL_SECONDS = 0.1
_LISTED_SECONDS = 30.0

Unary = Callable[[Any], Awaitable[msgspec.Struct]]
Streamed = Callable[[Any], AsyncGenerator[msgspec.Struct, None]]


@dataclass(frozen=True)
class Route:
    """An endpoint of this process: its name, request type and handler (one of the two)."""

    name: str
    request: type[msgspec.Struct]
    unary: Unary | None = None
    streamed: Streamed | None = None


class Runtime:
    """This process's place in the graph."""

    def __init__(self, settings: CommonSettings) -> None:
        _set_environment(settings)
        from dynamo.runtime import DistributedRuntime

        self._namespace = settings.namespace
        self._dynamo = DistributedRuntime(
            asyncio.get_running_loop(), settings.discovery, _REQUEST_PLANE
        )
        self._endpoints: list[Any] = []
        self._tasks = TaskOwner(self._task_died)
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None

    def _task_died(self, name: str, error: BaseException) -> None:
        self._failure = self._failure or RuntimeError(f"{name} died: {error}")
        self._stop.set()

    @property
    def tasks(self) -> TaskOwner:
        """Tasks whose death ends the process (a supervisor restarts it)."""
        return self._tasks

    def client(self, component: str, endpoint: str) -> RemoteEndpoint:
        """Callable side of another component's endpoint."""
        return RemoteEndpoint(self._dynamo.endpoint(f"{self._namespace}.{component}.{endpoint}"))

    def add_metrics(self, endpoint_path: tuple[str, str], expose: Callable[[], str]) -> None:
        """Add Prometheus text to /metrics of Dynamo's system server."""
        component, endpoint = endpoint_path
        handle = self._dynamo.endpoint(f"{self._namespace}.{component}.{endpoint}")
        handle.metrics.register_prometheus_expfmt_callback(expose)

    async def serve(
        self, component: str, routes: Sequence[Route], until: asyncio.Future[None] | None = None
    ) -> None:
        """Serve until SIGTERM, SIGINT or the end of `until`; then drain.

        Raises if an owned task died.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        serving = []
        for route in routes:
            endpoint = self._dynamo.endpoint(f"{self._namespace}.{component}.{route.name}")
            self._endpoints.append(endpoint)
            work = endpoint.serve_endpoint(_handler(route), graceful_shutdown=True)
            serving.append(asyncio.ensure_future(work))
        if routes:
            await self._wait_until_listed(component, routes[-1].name)
        report_status("ready")
        stop = asyncio.create_task(self._stop.wait())
        watched = {stop, *serving} if until is None else {stop, *serving, until}
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not self._stop.is_set():
            self._failure = next((t.exception() for t in done if t.exception()), None)
        await self._close(serving)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """For a process that only calls others (a test, a tool): leave the graph."""
        self._dynamo.shutdown()

    async def _wait_until_listed(self, component: str, endpoint: str) -> None:
        """Ready means that others can find this process."""
        await self.client(component, endpoint).wait_for_instances(_LISTED_SECONDS)

    async def _close(self, serving: list[asyncio.Future[None]]) -> None:
        """Leave discovery first, then finish what is in flight, then go."""
        report_status("stopping")
        from dynamo.common.utils.graceful_shutdown import graceful_shutdown_with_discovery

        await graceful_shutdown_with_discovery(self._dynamo, self._endpoints, grace_period_s=0.1)
        if serving:
            _, late = await asyncio.wait(serving, timeout=_DRAIN_SECONDS)
            for task in late:
                log.warning("requests still in flight after %g s are dropped", _DRAIN_SECONDS)
                task.cancel()
        await self._tasks.aclose()


def _handler(route: Route) -> Callable[[Any, Any], AsyncGenerator[Any, None]]:
    """Dynamo's handler form: wire data and context in, wire data out."""

    async def handle(data: Any, context: Any) -> AsyncGenerator[Any, None]:
        try:
            request = from_wire(data, route.request)
            if route.unary is not None:
                yield to_wire(await _until_stopped(route.unary(request), context))
            elif route.streamed is not None:
                async with aclosing(_stream_until_stopped(route.streamed(request), context)) as out:
                    async for message in out:
                        yield to_wire(message)
        except msgspec.ValidationError as error:
            yield to_wire(Refusal(BadRequest.code, f"malformed {route.request.__name__}: {error}"))
        except AuricleError as error:
            yield to_wire(Refusal(error.code, str(error), getattr(error, "keys", ())))
        except Exception as error:  # one request's fault must not end the endpoint
            log.exception("%s failed", route.name)
            yield to_wire(Refusal(AuricleError.code, f"{type(error).__name__}: {error}"))

    return handle


async def _until_stopped(work: Awaitable[msgspec.Struct], context: Any) -> msgspec.Struct:
    """The result, unless the caller has gone."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(context.async_killed_or_stopped())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise WorkerUnavailable("the caller has gone")
        return task.result()
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _stream_until_stopped(
    stream: AsyncGenerator[msgspec.Struct, None], context: Any
) -> AsyncGenerator[msgspec.Struct, None]:
    """The stream, ended (and closed) as soon as the caller has gone."""
    gone = asyncio.ensure_future(context.async_killed_or_stopped())
    following: asyncio.Future[msgspec.Struct] | None = None
    try:
        while True:
            following = asyncio.ensure_future(anext(stream))
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return
            try:
                yield following.result()
            except StopAsyncIteration:
                return
    finally:
        for one in (gone, following):
            if one is not None:
                one.cancel()
        await asyncio.gather(*(o for o in (gone, following) if o), return_exceptions=True)
        await stream.aclose()


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

        async def first() -> Any:
            # To the end: leaving earlier would tell the other side to stop.
            async with aclosing(self.stream(message, reply, instance)) as replies:
                received = [one async for one in replies]
            if not received:
                raise WorkerUnavailable("the worker ended the request without a reply")
            return received[0]

        return await within(seconds, first(), f"{type(message).__name__}")

    async def stream(
        self, message: msgspec.Struct, reply: Any, instance: int
    ) -> AsyncGenerator[Any, None]:
        """One request, many replies. Closing the iterator stops the other side."""
        from dynamo.runtime import Context

        context = Context()
        ended = False
        try:
            client = await self._connected()
            replies = await client.direct(
                to_wire(message), instance, annotated=False, context=context
            )
            async for data in replies:
                decoded = from_wire(data, reply | Refusal)
                if isinstance(decoded, Refusal):
                    raise from_code(decoded.code, decoded.message, decoded.keys)
                yield decoded
            ended = True
        except (AuricleError, asyncio.CancelledError, GeneratorExit):
            raise
        except msgspec.ValidationError as error:
            raise AuricleError(f"malformed reply: {error}") from None
        except Exception as error:
            # Dynamo has no error types of its own; a dead or vanished worker says "Unavailable: …",
            # and an unknown instance is reported as not found.
            log.warning("call to instance %x failed: %s", instance, error)
            self._quarantined[instance] = time.monotonic() + _QUARANTINE_SECONDS
            raise WorkerUnavailable(str(error)) from None
        finally:
            if not ended:
                context.stop_generating()


def _set_environment(settings: CommonSettings) -> None:
    """Dynamo reads its transports from the environment."""
    values = {
        "DYN_DISCOVERY_BACKEND": settings.discovery,
        "DYN_REQUEST_PLANE": _REQUEST_PLANE,
        "DYN_EVENT_PLANE": settings.event_plane,
        "DYN_FILE_KV": str(settings.discovery_path),
        "ETCD_ENDPOINTS": settings.etcd_endpoints,
        "NATS_SERVER": settings.nats_server,
        "DYN_SYSTEM_PORT": str(settings.system_port or ""),
    }
    os.environ.update({name: value for name, value in values.items() if value})
