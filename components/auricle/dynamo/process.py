"""A process of the graph: serves endpoints, and starts and stops cleanly."""

from __future__ import annotations

import asyncio
import logging
import signal
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from prometheus_client import CollectorRegistry

from auricle.config.settings import CommonSettings
from auricle.core.aio import TaskOwner, cancelled, with_timeout
from auricle.core.errors import ProcessFailed
from auricle.dynamo.events import EventPublisher, EventRelay, EventSubscriber
from auricle.dynamo.handling import (
    REALTIME_ENDPOINT,
    RealtimeModel,
    Route,
    handler,
    register_realtime,
    serve_realtime,
)
from auricle.dynamo.health_probes import Pulses, PulseTimes
from auricle.dynamo.incompatible import Incompatible, incompatible_gauge
from auricle.dynamo.kv_routing import KvIndex, publish_kv_events
from auricle.dynamo.local.server import LocalPlane
from auricle.dynamo.network import REQUEST_PLANE, call_sockets, event_sockets, set_environment
from auricle.dynamo.refusals import Refusals
from auricle.dynamo.registration import Listing, SelfDescription
from auricle.dynamo.remote import RemoteEndpoint, receiver
from auricle.dynamo.secrets import secrets_of
from auricle.dynamo.signing import Signer, Tokens, Verifier, clock_of
from auricle.load.reports import ProcessorLoad, WorkerLoad
from auricle.process.draining import Drain, until_going
from auricle.process.liveness import Liveness, Watchdog, beat
from auricle.process.metrics import report_status
from auricle.process.resources import freeze_heap
from auricle.protocol.control import AskAlive
from auricle.protocol.diagnosis import AskDescription

log = logging.getLogger(__name__)
_DRAIN_SECONDS = 10.0
_LISTED_SECONDS = 30.0
_ALIVE = "alive"
# A process is healthy for Dynamo if its endpoints with such a request are. Dynamo only sends the
# request with DYN_HEALTH_CHECK_ENABLED, which is off.
_HEALTH_REQUEST = {"are you well": True}

E = TypeVar("E", bound=msgspec.Struct)


class Runtime:
    """This process's connection to Dynamo. Construct and use it on one event loop."""

    def __init__(
        self,
        settings: CommonSettings,
        healthy_with: str = "",
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Once the endpoint `healthy_with` is served, /health and /live report this process as
        healthy; without one they never do. `registry` gets the counts of messages refused and
        of calls on this machine.

        Raises SettingsError if the deployment's secret cannot be read.
        """
        self._secrets = secrets_of(settings)
        self._clock = clock_of(settings)
        registry = registry or CollectorRegistry()
        self._refusals = Refusals(registry)
        set_environment(settings)
        self._healthy_with = healthy_with
        from dynamo.runtime import DistributedRuntime

        self._name = uuid.uuid4().hex
        self._namespace = settings.namespace
        self._block_size = settings.block_size
        self._dynamo = DistributedRuntime(
            asyncio.get_running_loop(), settings.discovery, REQUEST_PLANE
        )
        self._clients: dict[tuple[str, str], RemoteEndpoint] = {}  # by component and endpoint
        self._incompatible: dict[str, Incompatible] = {}  # by component
        self._incompatible_gauge = incompatible_gauge(registry)
        self._local = LocalPlane(call_sockets(settings), registry)
        self._endpoints: list[Any] = []
        self._tasks = TaskOwner(self._task_died)
        self._closing: list[Callable[[], None]] = []
        if (sockets := event_sockets(settings)) is not None:
            relay = EventRelay(sockets)
            relay.start()
            self._closing.append(relay.close)
        self._leave = asyncio.Event()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._left_discovery = False
        self._watchdog = Watchdog(settings.liveness_seconds)
        self.liveness = Liveness()  # of this process; components add their parts to it
        self.description = SelfDescription(self.liveness)  # the same

    def _task_died(self, name: str, error: BaseException) -> None:
        if self._left_discovery:
            return  # threads end when Dynamo does
        self._failure = self._failure or ProcessFailed(f"{name} died: {error}")
        self._stop.set()

    @property
    def tasks(self) -> TaskOwner:
        """Background tasks; if one raises, `serve` ends and raises ProcessFailed."""
        return self._tasks

    def _endpoint(self, component: str, name: str) -> Any:
        return self._dynamo.endpoint(self._path(component, name))

    def _path(self, component: str, name: str) -> str:
        return f"{self._namespace}.{component}.{name}"

    def client(self, component: str, endpoint: str, *, local: bool = False) -> RemoteEndpoint:
        """Return a client of another component's endpoint; `local`: see `dynamo/local/`."""
        alive = None if endpoint == _ALIVE else self.asking(component)
        called, path = self._endpoint(component, endpoint), self._path(component, endpoint)
        calls = self._local.calls if local else None
        incompatible = None if endpoint == _ALIVE else self._incompatible_of(component)
        made = RemoteEndpoint(called, path, self._signer(), alive, calls, incompatible)
        self._clients[component, endpoint] = made
        return made

    def _incompatible_of(self, component: str) -> Incompatible:
        if component not in self._incompatible:
            gauge = self._incompatible_gauge.labels(component)
            self._incompatible[component] = Incompatible(component, gauge)
        return self._incompatible[component]

    def _signer(self) -> Signer:
        return Signer(self._secrets, self._clock)

    def _verifier(self, component: str, endpoint: str) -> Verifier:
        name = receiver(self._path(component, endpoint), self.instance(component, endpoint))
        return Verifier(self._secrets, name, self._clock, any_wire=endpoint == _ALIVE)

    def tokens(self, purpose: str) -> Tokens:
        """Return a maker of tokens that every process of this deployment can open."""
        return Tokens(self._secrets, purpose)

    def pulses(self, component: str, served: RemoteEndpoint, times: PulseTimes) -> Pulses:
        """Return a watch over calls to `served`, an endpoint of this component."""
        return Pulses(self.asking(component), served, times, caller=self._name)

    def asking(self, component: str) -> RemoteEndpoint:
        """Return a client of the processes of a component, for questions about themselves."""
        known = self._clients.get((component, _ALIVE))
        return known or self.client(component, _ALIVE, local=True)

    def add_metrics(self, endpoint_path: tuple[str, str], expose: Callable[[], str]) -> None:
        """Add Prometheus text to /metrics of Dynamo's system server."""
        self._endpoint(*endpoint_path).metrics.register_prometheus_expfmt_callback(expose)

    def instance(self, component: str, endpoint: str) -> int:
        """Return the instance id by which others call this process's endpoint."""
        return int(self._endpoint(component, endpoint).connection_id())

    def publish(
        self, component: str, topic: str, event: Callable[[], msgspec.Struct], every_seconds: float
    ) -> None:
        """Publish the result of `event()` under the component's `topic` every `every_seconds`."""
        publisher = EventPublisher(
            self._endpoint(component, topic), self._path(component, topic), self._signer()
        )
        self._closing.append(publisher.close)
        self._tasks.start(publisher.run(event, every_seconds), f"publishing {topic}")

    def subscribe(
        self, component: str, topic: str, kind: type[E], on_event: Callable[[E], None]
    ) -> None:
        """Call `on_event` on the event loop with each event of every process of `component`."""
        path, incompatible = self._path(component, topic), self._incompatible_of(component)
        verifier = Verifier(self._secrets, path, self._clock, any_wire=True)

        def heard(event: E) -> None:
            if isinstance(event, WorkerLoad | ProcessorLoad):
                incompatible.reported(event.instance, event.wires)
            on_event(event)

        subscriber = EventSubscriber(
            self._endpoint(component, topic), kind, heard, verifier, self._refusals
        )
        self._closing.append(subscriber.close)
        self._tasks.start(subscriber.watch(), f"receiving {topic}")

    async def publish_kv(self, component: str, endpoint: str, source: str, model: str) -> None:
        """Relay vLLM's KV events, published at `source`, to all processors.

        Raises DeadlineExceeded if Dynamo does not register the model within 30 s.
        """
        publishing = publish_kv_events(
            self._endpoint(component, endpoint), source, self._block_size, model
        )
        publisher = await with_timeout(_LISTED_SECONDS, publishing, "announcing KV events")
        self._closing.append(publisher.shutdown)

    def kv_index(self, component: str, endpoint: str) -> KvIndex:
        """Return an index of the instances' prefix caches, which updates itself."""
        return KvIndex(self._endpoint(component, endpoint), self._block_size)

    async def serve(
        self,
        component: str,
        routes: Sequence[Route],
        until: asyncio.Future[None] | None = None,
        model: RealtimeModel | None = None,
        drain: Drain | None = None,
    ) -> None:
        """Serve `routes` until SIGTERM, SIGINT or the end of `until`.

        On SIGTERM `drain` runs first, while requests are still served; SIGINT skips or ends the
        drain, and cuts held work. `model` is registered with Dynamo's own frontend as well.
        Raises DeadlineExceeded if Dynamo does not list this process within 30 s, and ProcessFailed
        if an owned task died.
        """
        self.description.drain = drain
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave.set)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        question = AskAlive | AskDescription
        routes = [Route(_ALIVE, question, unary=self.description.answer, brief=True), *routes]
        serving = await self._serve_routes(component, routes)
        names = [route.name for route in routes]
        if model is not None:
            endpoint = self._endpoint(component, REALTIME_ENDPOINT)
            self._endpoints.append(endpoint)
            registering = register_realtime(endpoint, model)
            await with_timeout(_LISTED_SECONDS, registering, "announcing the model")
            serving.append(asyncio.ensure_future(serve_realtime(endpoint, model)))
            names.append(REALTIME_ENDPOINT)
        listing = await self._listing(component, names[-1])
        freeze_heap()
        self._tasks.start(self.liveness.run(), "liveness")
        self._tasks.start(beat(self.liveness, self._watchdog), "liveness")
        report_status("ready")
        going = asyncio.create_task(until_going(self._leave, self._stop, drain))
        watched = {going, *serving} if until is None else {going, *serving, until}
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if not going.done():
            self._failure = next((t.exception() for t in done if t.exception()), None)
            if self._failure is None and done & set(serving):
                self._failure = ProcessFailed("Dynamo ended an endpoint: its lease is lost")
        if self._failure is not None and drain is not None:
            # Without discovery no worker is reachable: other processes must take over at once.
            drain.begin()
        await cancelled([going, listing])
        await self._close(serving)
        if self._failure is not None:
            raise self._failure

    async def _serve_routes(
        self, component: str, routes: Sequence[Route]
    ) -> list[asyncio.Future[None]]:
        """Serve routes on this machine's socket and on Dynamo; return the tasks of the latter."""
        handlers = {
            route.name: handler(route, self._verifier(component, route.name), self._refusals)
            for route in routes
        }
        paths = {self._path(component, name): one for name, one in handlers.items()}
        await self._local.serve(self.instance(component, _ALIVE), paths, self._tasks)
        serving = []
        for route in routes:
            endpoint = self._endpoint(component, route.name)
            self._endpoints.append(endpoint)
            work = endpoint.serve_endpoint(
                handlers[route.name],
                graceful_shutdown=True,
                health_check_payload=_HEALTH_REQUEST if route.name == self._healthy_with else None,
            )
            serving.append(asyncio.ensure_future(work))
        return serving

    def close(self) -> None:
        """Leave the graph, in a process that only calls others (a test, a tool)."""
        for close in self._closing:
            close()
        self._local.hang_up()
        self._dynamo.shutdown()

    async def _listing(self, component: str, name: str) -> asyncio.Task[None]:
        """Wait until discovery lists this process: only then is it ready. Then keep it listed."""
        # Each client takes inotify instances.
        followed = self._clients.get((component, name)) or self.client(component, name)
        own = self.instance(component, name)

        async def write() -> None:
            await asyncio.gather(*(e.register_endpoint_instance() for e in self._endpoints))

        listing = Listing(lambda: followed.lists(own), write)
        await with_timeout(_LISTED_SECONDS, listing.begin(), "being listed in discovery")
        return self._tasks.start(listing.run(), "listing")

    async def _close(self, serving: list[asyncio.Future[None]]) -> None:
        """Leave discovery, let requests in flight finish for up to 10 s, then shut down."""
        report_status("stopping")
        self._left_discovery = True
        from dynamo.common.utils.graceful_shutdown import graceful_shutdown_with_discovery

        await graceful_shutdown_with_discovery(self._dynamo, self._endpoints, grace_period_s=0.1)
        ending = [*serving, asyncio.ensure_future(self._local.leave())]
        _, late = await asyncio.wait(ending, timeout=_DRAIN_SECONDS)
        for task in late:
            log.warning("requests still in flight after %g s are dropped", _DRAIN_SECONDS)
            task.cancel()
        await self._local.close()
        await self._tasks.aclose()
        for close in self._closing:
            await asyncio.to_thread(close)
        if self._failure is None:
            self._watchdog.disarm()
