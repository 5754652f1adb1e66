"""This process in the graph: serve endpoints, start and stop cleanly."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from auricle.draining import Drain
from auricle.errors import AuricleError, BadRequest
from auricle.load_reports import LoadReport, ProcessorLoad, WorkerLoad
from auricle.logs import about
from auricle.messages import Refusal
from auricle.runtime import kv_plane, realtime
from auricle.runtime.cancellation import stream_until_stopped, until_stopped
from auricle.runtime.kv_plane import KvIndex
from auricle.runtime.load_plane import LoadPublisher, LoadSubscriber
from auricle.runtime.realtime import RealtimeModel
from auricle.runtime.remote import RemoteEndpoint
from auricle.runtime.wire import from_wire, to_wire
from auricle.settings import CommonSettings
from auricle.status import report_status
from auricle.tasks import TaskOwner, cancelled, unless, within

log = logging.getLogger(__name__)
_DRAIN_SECONDS = 10.0
# Requests go point to point; NATS, where configured, carries events only.
_REQUEST_PLANE = "tcp"
_LISTED_SECONDS = 30.0
_HEALTH_VARIABLE = "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS"
_LOAD = "load"  # the name that load reports go by, beside a component's endpoints

R = TypeVar("R", WorkerLoad, ProcessorLoad)
Unary = Callable[[Any], Awaitable[msgspec.Struct]]
Streamed = Callable[[Any], AsyncGenerator[msgspec.Struct, None]]


@dataclass(frozen=True)
class Route:
    """An endpoint of this process: its name, request type and handler (one of the two).

    `brief` handlers end soon by themselves and are not watched for their caller leaving.
    """

    name: str
    request: type[msgspec.Struct]
    unary: Unary | None = None
    streamed: Streamed | None = None
    brief: bool = False


class Runtime:
    """This process's place in the graph."""

    def __init__(self, settings: CommonSettings, healthy_with: str = "") -> None:
        """`healthy_with` is the endpoint that makes /health and /live of the system server
        well once it is served; without one they never are."""
        os.environ.update(dynamo_environment(settings))
        if healthy_with:
            os.environ[_HEALTH_VARIABLE] = f'["{healthy_with}"]'
        from dynamo.runtime import DistributedRuntime

        self._namespace = settings.namespace
        self._block_size = settings.block_size
        self._dynamo = DistributedRuntime(
            asyncio.get_running_loop(), settings.discovery, _REQUEST_PLANE
        )
        self._endpoints: list[Any] = []
        self._tasks = TaskOwner(self._task_died)
        self._closing: list[Callable[[], None]] = []
        self._leave = asyncio.Event()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None

    def _task_died(self, name: str, error: BaseException) -> None:
        self._failure = self._failure or RuntimeError(f"{name} died: {error}")
        self._stop.set()

    @property
    def tasks(self) -> TaskOwner:
        """Tasks whose death ends the process (a supervisor restarts it)."""
        return self._tasks

    def _endpoint(self, component: str, name: str) -> Any:
        return self._dynamo.endpoint(f"{self._namespace}.{component}.{name}")

    def client(self, component: str, endpoint: str) -> RemoteEndpoint:
        """Callable side of another component's endpoint."""
        return RemoteEndpoint(self._endpoint(component, endpoint))

    def add_metrics(self, endpoint_path: tuple[str, str], expose: Callable[[], str]) -> None:
        """Add Prometheus text to /metrics of Dynamo's system server."""
        self._endpoint(*endpoint_path).metrics.register_prometheus_expfmt_callback(expose)

    def instance(self, component: str, endpoint: str) -> int:
        """What others call this process by."""
        return int(self._endpoint(component, endpoint).connection_id())

    def publish_load(
        self, component: str, report: Callable[[], LoadReport], every_seconds: float
    ) -> None:
        """Tell whoever wants to know of this process's load, from now on."""
        publisher = LoadPublisher(self._endpoint(component, _LOAD))
        self._closing.append(publisher.close)

        async def publish() -> None:
            while True:
                await asyncio.sleep(every_seconds)
                publisher.publish(report())

        self._tasks.start(publish(), "load reports")

    def hear_load(self, component: str, kind: type[R], heard: Callable[[R], None]) -> None:
        """Be told of the load of every process of a component, from now on."""
        subscriber = LoadSubscriber(self._endpoint(component, _LOAD), kind, heard)
        self._closing.append(subscriber.close)

    async def publish_kv(self, component: str, endpoint: str, source: str, model: str) -> None:
        """Tell of the KV blocks that vLLM tells of at `source`, from now on."""
        publishing = kv_plane.publish(
            self._endpoint(component, endpoint), source, self._block_size, model
        )
        publisher = await within(_LISTED_SECONDS, publishing, "announcing KV events")
        self._closing.append(publisher.shutdown)

    def kv_index(self, component: str, endpoint: str) -> KvIndex:
        """Which instances hold KV of what, kept up to date."""
        return KvIndex(self._endpoint(component, endpoint), self._block_size)

    async def serve(
        self,
        component: str,
        routes: Sequence[Route],
        until: asyncio.Future[None] | None = None,
        model: RealtimeModel | None = None,
        drain: Drain | None = None,
    ) -> None:
        """Serve until SIGTERM, SIGINT or the end of `until`.

        On SIGTERM `drain` comes first, while requests are still served; SIGINT, also during
        it, ends that. `model` is also announced to Dynamo's own frontend. Raises if an
        owned task died.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave.set)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        serving = []
        for route in routes:
            endpoint = self._endpoint(component, route.name)
            self._endpoints.append(endpoint)
            work = endpoint.serve_endpoint(_handler(route), graceful_shutdown=True)
            serving.append(asyncio.ensure_future(work))
        names = [route.name for route in routes]
        if model is not None:
            endpoint = self._endpoint(component, realtime.ENDPOINT)
            self._endpoints.append(endpoint)
            registering = realtime.register(endpoint, model)
            await within(_LISTED_SECONDS, registering, "announcing the model")
            serving.append(asyncio.ensure_future(realtime.serve(endpoint, model)))
            names.append(realtime.ENDPOINT)
        if names:
            await self._wait_until_listed(component, names[-1])
        # What exists by now stays: looking through all of it again (libraries and weights)
        # would hold up every session for a tenth of a second now and then.
        gc.collect()
        gc.freeze()
        report_status("ready")
        going = asyncio.create_task(self._until_going(drain))
        watched = {going, *serving} if until is None else {going, *serving, until}
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if not going.done():
            self._failure = next((t.exception() for t in done if t.exception()), None)
        await cancelled([going])
        await self._close(serving)
        if self._failure is not None:
            raise self._failure

    async def _until_going(self, drain: Drain | None) -> None:
        """Until told to stop; or told to leave, and drained."""
        if await unless(self._stop, self._left()) is None or drain is None:
            return
        report_status("draining")
        await unless(self._stop, drain.run())

    async def _left(self) -> bool:
        return await self._leave.wait()

    def close(self) -> None:
        """For a process that only calls others (a test, a tool): leave the graph."""
        for close in self._closing:
            close()
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
        for close in self._closing:
            await asyncio.to_thread(close)


def _handler(route: Route) -> Callable[[Any, Any], AsyncGenerator[Any, None]]:
    """Dynamo's handler form: wire data and context in, wire data out."""

    async def handle(data: Any, context: Any) -> AsyncGenerator[Any, None]:
        try:
            request = from_wire(data, route.request)
            ids = {name: getattr(request, name, None) for name in ("session", "request")}
            if route.unary is not None:
                with about(**ids):
                    work = route.unary(request)
                    reply = await (work if route.brief else until_stopped(work, context))
                yield to_wire(reply)
            elif route.streamed is not None:
                with about(**ids):
                    replies = stream_until_stopped(route.streamed(request), context)
                async with aclosing(replies) as out:
                    async for message in out:
                        yield to_wire(message)
        except msgspec.ValidationError as error:
            yield to_wire(Refusal(BadRequest.code, f"malformed {route.request.__name__}: {error}"))
        except AuricleError as error:
            keys = getattr(error, "keys", ())
            after = getattr(error, "retry_after_seconds", 0.0)
            yield to_wire(Refusal(error.code, str(error), keys, after))
        except Exception as error:  # one request's fault must not end the endpoint
            log.exception("%s failed", route.name)
            yield to_wire(Refusal(AuricleError.code, f"{type(error).__name__}: {error}"))

    return handle


def dynamo_environment(settings: CommonSettings) -> dict[str, str]:
    """Dynamo reads its transports from the environment."""
    values = {
        "DYN_DISCOVERY_BACKEND": settings.discovery,
        "DYN_REQUEST_PLANE": _REQUEST_PLANE,
        "DYN_EVENT_PLANE": settings.event_plane,
        "DYN_FILE_KV": str(settings.discovery_path),
        "ETCD_ENDPOINTS": settings.etcd_endpoints,
        # Only where Dynamo itself uses it: it would not start without a server that is down.
        "NATS_SERVER": settings.nats_server if settings.event_plane == "nats" else "",
        "DYN_SYSTEM_PORT": str(settings.system_port or ""),
    }
    return {name: value for name, value in values.items() if value}
