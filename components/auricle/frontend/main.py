"""The frontend process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from ssl import SSLContext

from auricle.config.settings import FrontendSettings
from auricle.core.aio import with_timeout
from auricle.core.errors import DeadlineExceeded
from auricle.dynamo import (
    PROCESSOR_PULSE,
    RealtimeModel,
    RemoteEndpoint,
    Route,
    Runtime,
    Tokens,
)
from auricle.frontend.audio.turn_detection import TurnDetector, turn_model
from auricle.frontend.audio.voice_activity import VoiceDetector
from auricle.frontend.exporters.nats import NatsBus
from auricle.frontend.exporters.transcripts import NoBus, TranscriptBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.link.served_pools import ServedPools
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.ops.dashboard import Dashboard
from auricle.frontend.ops.documents import FrontendState
from auricle.frontend.ops.gatherer import Gatherer
from auricle.frontend.ops.history import LoadHistory
from auricle.frontend.ops.routes import OperationsRoutes
from auricle.frontend.page.routes import with_pages
from auricle.frontend.protocols.realtime.socket import RealtimeWorker
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.jobs.queue import JobQueue
from auricle.frontend.recordings.jobs.routes import JobRoutes
from auricle.frontend.recordings.jobs.runner import JobRunner
from auricle.frontend.recordings.requests import RecordingRequests
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.routes import (
    TcpPorts,
    grpc_methods,
    recording_endpoints,
    recording_routes,
    websocket_routes,
)
from auricle.frontend.transport.access.gate import Access, access_of
from auricle.frontend.transport.access.keys_file import KeysFile
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.app import Services, create_app
from auricle.frontend.transport.certificate import Certificate
from auricle.frontend.transport.connections import Connections
from auricle.frontend.transport.grpc.server import RpcServer
from auricle.frontend.transport.hosts import allowed_hosts
from auricle.frontend.transport.server import (
    FrontendServer,
    HandshakeLimit,
    connections_of,
    server_config,
)
from auricle.frontend.transport.slots import NetworkRates
from auricle.load.pools import POOLS
from auricle.load.reports import LOAD_TOPIC, ProcessorLoad
from auricle.process.draining import Drain
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import Tracer
from auricle.protocol.diagnosis import LoadNow, Parts
from auricle.protocol.frontends import AskUse


def served_names(settings: FrontendSettings) -> tuple[str, ...]:
    """Return the names under which clients may ask for the model, its own one first."""
    return tuple(dict.fromkeys((settings.model.resolve().name, *settings.model_aliases)))


PEERS = "peers"  # the endpoint by which frontends ask each other
_LISTEN_SECONDS = 30.0
_PROCESSOR_SECONDS = 600.0
_WORKER_SECONDS = 5.0
_TOLD_SECONDS = 0.5
# Shares of the drain time: sessions are cut and become final, and recordings in progress are
# refused, which takes no time.
_CUT_SHARE, _RECORDINGS_SHARE = 0.8, 0.95


async def run(settings: FrontendSettings) -> None:
    """Serve clients until the process receives a signal to stop, then drain.

    Raises SettingsError for wrong API keys, SystemExit if the port is taken, and
    DeadlineExceeded if no processor appears within 600 s.
    """
    keys_file = None if settings.api_keys_file is None else KeysFile(settings.api_keys_file)
    certificate = Certificate.of(settings)
    access = access_of(settings)
    listener = listen(settings.host, settings.port)
    ports = TcpPorts(settings, access, listen)
    registry = Registry()
    runtime = Runtime(settings, registry=registry.registry)
    jobs = await JobQueue.open(settings)
    frontend = await _frontend(settings, runtime, registry, access)
    if keys_file is not None:
        runtime.tasks.start(keys_file.follow(access), "keys file")
    decoders = DecodingProcesses(settings)
    await decoders.start()
    gatherer = Gatherer.of(runtime, settings, frontend.bus.state)
    tokens = runtime.tokens(PURPOSE)
    services = build_services(frontend, access, decoders, registry, gatherer, tokens, jobs)
    if services.run_jobs is not None:
        runtime.tasks.start(services.run_jobs(), "jobs")
    rates = NetworkRates(settings.max_handshakes_per_address, "requests")
    connections = connections_of(settings, frontend.metrics.connection_ended)
    frontend.metrics.connections.set_function(lambda: len(connections))
    frontend.metrics.unadmitted_bytes.set_function(lambda: connections.held.total)
    runtime.tasks.start(connections.run(), "connections")
    app = create_app(services, settings.cors_origins)
    _operations(frontend, runtime, access, gatherer, connections).add_to(app)
    limited = HandshakeLimit(with_pages(app, wanted=settings.page), rates)
    server = FrontendServer(server_config(settings, limited, connections))
    rpc = RpcServer(settings, services, frontend.admission, connections, rates)
    await rpc.open()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await ports.open(frontend, connections)
    await with_timeout(_LISTEN_SECONDS, server.accepting.wait(), "the HTTP server")
    _follow_certificate(certificate, runtime, (server.config.ssl, rpc.tls))
    _report_listening(settings, listener.getsockname()[1])
    try:
        model, drain = _dynamo_model(frontend), _drain(frontend.admission, settings)
        await runtime.serve(
            "frontend",
            [Route(PEERS, AskUse, unary=access.peers.answer, brief=True)],
            until=serving,
            model=model,
            drain=drain,
        )
    finally:
        server.should_exit = True
        await asyncio.wait([serving], timeout=10.0)
        await ports.close()
        await rpc.close()
        await decoders.close()
        if jobs is not None:
            await jobs.close()
        if frontend.turns is not None:
            frontend.turns.close()
        await asyncio.to_thread(frontend.tracer.close)


async def _frontend(
    settings: FrontendSettings, runtime: Runtime, registry: Registry, access: Access
) -> Frontend:
    """Wait for a processor, load the models, and return the shared parts of this process."""
    _follow_peers(access, runtime)
    endpoints = await _processors(runtime)
    detector, turns = VoiceDetector(), None
    pools, _ = await asyncio.gather(_pools(runtime, settings), detector.load())
    runtime.tasks.start(detector.run(), "voice activity")
    if settings.turn_model is not None:
        turns = TurnDetector(partial(turn_model, settings.turn_model), settings.turn_threads)
        await turns.load()
    bus = _transcript_bus(settings, registry)
    if isinstance(bus, NatsBus):
        runtime.tasks.start(bus.run(), "transcript bus")
    admission = SessionAdmission(endpoints, settings.max_sessions, pools=pools)
    metrics = FrontendMetrics(registry.registry, settings)
    metrics.pools(pools.kinds, lambda: pools.missing)
    metrics.sessions.set_function(lambda: admission.open)
    runtime.description.parts = lambda: Parts(
        load=LoadNow("sessions", admission.open, settings.max_sessions)
    )
    return Frontend(
        settings=settings,
        models=served_names(settings),
        endpoints=endpoints,
        admission=admission,
        detector=detector,
        bus=bus,
        metrics=metrics,
        tracer=Tracer("Frontend", settings.otlp_endpoint, settings.namespace),
        turns=turns,
        peers=access.peers,
    )


def _follow_peers(access: Access, runtime: Runtime) -> None:
    """Connect to the other frontends; they are called once this one serves its own endpoint."""
    endpoint = runtime.client("frontend", PEERS, local=True)
    access.peers.join(endpoint, runtime.instance("frontend", PEERS))
    runtime.tasks.start(access.follow_peers(), "other frontends")


def _follow_certificate(
    certificate: Certificate | None, runtime: Runtime, contexts: Iterable[SSLContext | None]
) -> None:
    if certificate is not None:
        used = [context for context in contexts if context is not None]
        runtime.tasks.start(certificate.follow(used), "certificate")


def _report_listening(settings: FrontendSettings, port: int) -> None:
    scheme = "http" if settings.tls_certificate is None else "https"
    report_status(f"listening at {scheme}://{settings.host}:{port}")


def _drain(admission: SessionAdmission, settings: FrontendSettings) -> Drain:
    seconds = settings.drain_seconds
    return Drain(
        lambda: admission.begin_drain(_CUT_SHARE * seconds, _RECORDINGS_SHARE * seconds),
        notice_seconds=_TOLD_SECONDS,
        deadline=seconds,
        cut=lambda: admission.begin_drain(0.0),
    )


async def _processors(runtime: Runtime) -> ProcessorEndpoints:
    """Return the processors' endpoints once there is a processor, or raise DeadlineExceeded."""
    admit, withdraw, opening, push, end = (
        runtime.client("processor", name, local=True)
        for name in ("admit", "withdraw", "open", "push", "end")
    )
    endpoints = ProcessorEndpoints(
        *(admit, withdraw, opening, push, end),
        runtime.pulses("processor", opening, PROCESSOR_PULSE),
    )
    runtime.subscribe("processor", LOAD_TOPIC, ProcessorLoad, endpoints.loads.update)
    report_status("waiting for a processor")
    for endpoint in (
        *(endpoints.admit, endpoints.withdraw),
        *(endpoints.push, endpoints.end, endpoints.open),
    ):
        await endpoint.wait_for_instances(_PROCESSOR_SECONDS)
    return endpoints


async def _pools(runtime: Runtime, settings: FrontendSettings) -> ServedPools:
    """Return the pools of these settings, which are followed from now on."""
    there = {pool: runtime.asking(pool.kind) for pool in POOLS.values() if pool.there(settings)}
    optional = any(pool.annotation for pool in there)
    pools = ServedPools(there, runtime.asking("planner") if optional else None)
    await asyncio.gather(*(_listed(workers) for workers in there.values()))
    await pools.look()
    runtime.tasks.start(pools.follow(), "pools")
    return pools


async def _listed(workers: RemoteEndpoint) -> None:
    """Wait until discovery lists a worker, for a few seconds: a busy machine may list it late."""
    with suppress(DeadlineExceeded):
        await workers.wait_for_instances(_WORKER_SECONDS)


def build_services(
    frontend: Frontend,
    access: Access,
    decoders: DecodingProcesses,
    registry: Registry,
    gatherer: Gatherer,
    tokens: Tokens,
    jobs: JobQueue | None = None,
) -> Services:
    settings, readiness = frontend.settings, frontend.admission.readiness
    resuming = ResumeTokens(tokens, settings.resume_seconds, frontend.model)
    transcriber = RecordingTranscriber(frontend, decoders)
    requests = RecordingRequests(frontend, access, transcriber, jobs)
    endpoints = recording_endpoints(requests)
    runner = None if jobs is None else JobRunner(jobs, requests, endpoints, frontend)
    return Services(
        models=frontend.models,
        abilities=frontend.abilities,
        access=access,
        websockets=websocket_routes(frontend, access, resuming),
        recordings=recording_routes(requests, endpoints),
        registry=registry,
        readiness=readiness,
        rpc_methods=grpc_methods(frontend, access, transcriber, readiness),
        diagnose=gatherer.diagnose,
        more_routes=JobRoutes(access, jobs, runner).add_to,
        run_jobs=None if runner is None else runner.run,
        metrics_need_key=settings.metrics_need_key,
        hosts=allowed_hosts(settings.allowed_hosts, settings.host, keys=access.needs_keys),
    )


def _operations(
    frontend: Frontend,
    runtime: Runtime,
    access: Access,
    gatherer: Gatherer,
    connections: Connections,
) -> OperationsRoutes:
    admission, limit = frontend.admission, frontend.settings.max_sessions

    def own() -> FrontendState:
        return FrontendState(admission.open, limit, len(connections), admission.draining)

    dashboard = Dashboard(
        gatherer.snapshot, own, lambda: access.needs_keys, frontend.text_lags.watch
    )
    history = LoadHistory(frontend.endpoints.loads.seen)
    runtime.tasks.start(history.run(), "operations history")
    return OperationsRoutes(access, admission, dashboard, gatherer.diagnose, history.now)


def _transcript_bus(settings: FrontendSettings, registry: Registry) -> TranscriptBus:
    if not settings.nats_server:
        return NoBus()
    return NatsBus(
        settings.nats_server,
        settings.namespace,
        max_queued=settings.max_queued_transcripts,
        keep_hours=settings.transcript_hours,
        registry=registry.registry,
    )


def _dynamo_model(frontend: Frontend) -> RealtimeModel | None:
    """Return the model to register with Dynamo's own frontend; None if that is not configured."""
    if not frontend.settings.dynamo_model:
        return None
    worker = RealtimeWorker(frontend)
    return RealtimeModel(frontend.settings.model, frontend.model, worker.serve)


def listen(host: str, port: int) -> socket.socket:
    """Bind the port first, so that a taken port is reported before anything else starts."""
    # Of a named protocol asyncio disables Nagle's algorithm, which delays answers by 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SystemExit(f"cannot listen on {host}:{port}: {error}") from None
    return listener
