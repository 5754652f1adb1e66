"""The frontend process."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from auricle.draining import Drain
from auricle.frontend.access.gate import Access
from auricle.frontend.access.keys import load_keys
from auricle.frontend.admission import FrontDoor
from auricle.frontend.app import Services, create_app
from auricle.frontend.backend import Backend
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.processors import ProcessorEndpoints
from auricle.frontend.realtime.socket import SUBPROTOCOLS, RealtimeProtocol
from auricle.frontend.realtime.worker import RealtimeWorker
from auricle.frontend.recordings.decoders import Decoders, DecodingProcesses
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.sockets import SocketProtocol, SocketSessions
from auricle.frontend.stream.session import StreamProtocol
from auricle.frontend.transcript_bus import NatsBus, NoBus, TranscriptBus
from auricle.frontend.transcriptions.endpoint import TranscriptionRequests
from auricle.frontend.voice import VoiceDetector
from auricle.http_server import EmbeddedServer
from auricle.load_reports import ProcessorLoad
from auricle.metrics import Registry
from auricle.runtime import RealtimeModel, Runtime
from auricle.settings import FrontendSettings
from auricle.status import report_status
from auricle.tasks import within
from auricle.tracing import Tracer

_LISTEN_SECONDS = 30.0
_PROCESSOR_SECONDS = 600.0
_TOLD_SECONDS = 0.5
_CUT_SHARE = 0.8


async def run(settings: FrontendSettings) -> None:
    """Serve clients until told to stop."""
    access = Access(load_keys(settings.api_keys_file))
    listener = _listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    runtime = Runtime(settings)
    endpoints = ProcessorEndpoints(
        runtime.client("processor", "admit"),
        runtime.client("processor", "open"),
        runtime.client("processor", "push"),
        runtime.client("processor", "end"),
    )
    runtime.hear_load("processor", ProcessorLoad, endpoints.loads.heard)
    report_status("waiting for a processor")
    for endpoint in (endpoints.admit, endpoints.push, endpoints.end, endpoints.open):
        await endpoint.wait_for_instances(_PROCESSOR_SECONDS)
    registry = Registry()
    metrics = FrontendMetrics(registry.registry, settings)
    detector = VoiceDetector(settings.max_queued_seconds)
    await detector.load()
    decoders = DecodingProcesses(settings.decoding_processes)
    await decoders.start()
    models = (settings.model.resolve().name, *settings.model_aliases)
    bus = _transcript_bus(settings, registry)
    if isinstance(bus, NatsBus):
        runtime.tasks.start(bus.run(), "transcript bus")
    tracer = Tracer("Frontend", settings.otlp_endpoint)
    front_door = FrontDoor(endpoints, settings.max_sessions)
    metrics.sessions.set_function(lambda: front_door.open)
    backend = Backend(settings, models, endpoints, front_door, detector, bus, metrics, tracer)
    services = _services(backend, access, decoders, registry)
    app = create_app(services, settings.cors_origins)
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=settings.max_frame_bytes,
        # A client that is held back cannot be heard answering pings: its audio is before the
        # answer. Who vanished is noticed by the idle time-out instead.
        ws_ping_timeout=None,
        timeout_graceful_shutdown=5,
        lifespan="off",
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    server = EmbeddedServer(config)
    runtime.tasks.start(detector.run(), "voice activity")
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await within(_LISTEN_SECONDS, server.accepting.wait(), "the HTTP server")
    scheme = "http" if settings.tls_certificate is None else "https"
    report_status(f"listening at {scheme}://{settings.host}:{port}")
    try:
        model = _dynamo_model(backend)
        drain = Drain(
            # Time is left for what is cut then to become final.
            lambda: front_door.leave(_CUT_SHARE * settings.drain_seconds),
            told_seconds=_TOLD_SECONDS,
            deadline=settings.drain_seconds,
        )
        await runtime.serve("frontend", [], until=serving, model=model, drain=drain)
    finally:
        server.should_exit = True
        await asyncio.wait([serving], timeout=10.0)
        decoders.close()
        await asyncio.to_thread(tracer.close)


def _services(
    backend: Backend,
    access: Access,
    decoders: Decoders,
    registry: Registry,
) -> Services:
    async def processors() -> int:
        leaving = backend.front_door.leaving
        return 0 if leaving else len(await backend.endpoints.open.instances())

    sockets = SocketSessions(backend, access)
    stream = StreamProtocol(backend)
    realtime = RealtimeProtocol(backend)
    stream_protocol = SocketProtocol("stream", stream.serve, stream.error)
    realtime_protocol = SocketProtocol("realtime", realtime.serve, realtime.error, SUBPROTOCOLS)
    return Services(
        models=backend.models,
        access=access,
        stream=lambda socket: sockets.serve(socket, stream_protocol),
        realtime=lambda socket: sockets.serve(socket, realtime_protocol),
        transcriptions=TranscriptionRequests(
            backend, access, RecordingTranscriber(backend, decoders)
        ),
        registry=registry,
        processors=processors,
    )


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


def _dynamo_model(backend: Backend) -> RealtimeModel | None:
    """What Dynamo's own frontend is told of us, if it is to be."""
    if not backend.settings.dynamo_model:
        return None
    worker = RealtimeWorker(backend)
    return RealtimeModel(backend.settings.model, backend.model, worker.serve)


def _listen(host: str, port: int) -> socket.socket:
    """Bound here, so a taken port is an error before anything else starts."""
    # With its protocol named, asyncio switches Nagle's algorithm off for each connection;
    # without, answers wait for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SystemExit(f"cannot listen on {host}:{port}: {error}") from None
    return listener
