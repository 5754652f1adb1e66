"""The frontend process."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

from starlette.types import ASGIApp

from auricle.config.frontend import ModelPreset
from auricle.config.settings import FrontendSettings
from auricle.core.aio import within
from auricle.dynamo import PROCESSOR_PULSE, RealtimeModel, Runtime, Tokens
from auricle.frontend.audio.turn_detection import TurnDetector, turn_model
from auricle.frontend.audio.voice_activity import VoiceDetector
from auricle.frontend.exporters.nats import NatsBus
from auricle.frontend.exporters.transcripts import NoBus, TranscriptBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.ops.dashboard import Gatherer, Observatory
from auricle.frontend.ops.diagnosis import Deployment, Diagnostician
from auricle.frontend.ops.documents import FrontendState
from auricle.frontend.ops.routes import OperationsRoutes
from auricle.frontend.page.routes import with_pages
from auricle.frontend.protocols.deepgram.flux import flux_protocol
from auricle.frontend.protocols.deepgram.live import listen_protocol
from auricle.frontend.protocols.deepgram.recordings import LISTEN_OPENAPI, ListenRecordings
from auricle.frontend.protocols.realtime.socket import (
    SUBPROTOCOLS,
    RealtimeProtocol,
    RealtimeWorker,
)
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens
from auricle.frontend.protocols.stream.session import StreamProtocol
from auricle.frontend.protocols.transcriptions.endpoint import TranscriptionRequests
from auricle.frontend.protocols.transcriptions.translating import (
    TRANSCRIPTION_OPENAPI,
    TRANSLATION_OPENAPI,
    TranslationRequests,
)
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.requests import RecordingRequests
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.routes import TcpPorts, grpc_methods, websocket_routes
from auricle.frontend.transport.access.gate import Access, access_of
from auricle.frontend.transport.access.keys_file import KeysFile
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.app import Services, create_app
from auricle.frontend.transport.connections import Connections
from auricle.frontend.transport.grpc.server import RpcServer
from auricle.frontend.transport.server import (
    FrontendServer,
    HandshakeLimit,
    connections_of,
    server_config,
)
from auricle.frontend.transport.slots import RateLimiter
from auricle.frontend.transport.websockets import SocketProtocol, SocketSessions
from auricle.load.reports import LOAD_TOPIC, ProcessorLoad
from auricle.process.draining import Drain
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import Tracer
from auricle.protocol.diagnosis import LoadNow, Parts

# Names of models that programs written for another service ask for by default. No I/O.

# Without `gpt-4o-transcribe-diarize`: who asks for it expects speakers.
_NAMES: dict[ModelPreset, tuple[str, ...]] = {
    "openai": (
        "whisper-1",
        "gpt-transcribe",
        "gpt-live-transcribe",
        "gpt-realtime-whisper",
        "gpt-4o-transcribe",
        "gpt-4o-mini-transcribe",
        "gpt-4o-mini-transcribe-2025-12-15",
    ),
    "assemblyai": (
        "universal-streaming-english",
        "universal-streaming-multilingual",
        "universal-3-6-pro",
        "universal-3-6",
        "universal-3-5-pro",
        "u3-rt-pro",
        "u3-rt-pro-beta-1",
        "u3-pro",
        "whisper-rt",
    ),
}


def served_names(settings: FrontendSettings) -> tuple[str, ...]:
    """Return the names under which clients may ask for the model, its own one first."""
    preset = (name for preset in settings.model_presets for name in _NAMES[preset])
    return tuple(dict.fromkeys((settings.model.resolve().name, *settings.model_aliases, *preset)))


_LISTEN_SECONDS = 30.0
_PROCESSOR_SECONDS = 600.0
_TOLD_SECONDS = 0.5
# Of the time for draining: when sessions are cut, which then become final, and when recordings
# that are still in work are refused, which takes no time.
_CUT_SHARE, _RECORDINGS_SHARE = 0.8, 0.95


async def run(settings: FrontendSettings) -> None:
    """Serve clients until the process is told to stop, then drain.

    Raises SettingsError for wrong API keys, SystemExit if the port is taken, and
    DeadlineExceeded if no processor appears within 600 s.
    """
    keys_file = None if settings.api_keys_file is None else KeysFile(settings.api_keys_file)
    access = access_of(settings)
    listener = listen(settings.host, settings.port)
    ports, port = TcpPorts(settings, access, listen), listener.getsockname()[1]
    registry = Registry()
    runtime = Runtime(settings, registry=registry.registry)
    endpoints = await _processors(runtime)
    metrics = FrontendMetrics(registry.registry, settings)
    detector, turns = await _listeners(settings)
    decoders = DecodingProcesses(settings)
    await decoders.start()
    bus = _transcript_bus(settings, registry)
    if isinstance(bus, NatsBus):
        runtime.tasks.start(bus.run(), "transcript bus")
    tracer = Tracer("Frontend", settings.otlp_endpoint, settings.namespace)
    admission = SessionAdmission(endpoints, settings.max_sessions)
    _show(admission, metrics, runtime, settings)
    frontend = Frontend(
        *(settings, served_names(settings), endpoints, admission, detector, bus, metrics, tracer),
        turns=turns,
    )
    diagnostician = Diagnostician(
        settings, Deployment.of(runtime, settings), runtime.description.now, bus.state
    )
    services = build_services(
        frontend, access, decoders, registry, diagnostician, runtime.tokens(PURPOSE)
    )
    rates = RateLimiter(settings.max_handshakes_per_address, "requests")
    connections = connections_of(settings)
    operations = _operations(runtime, frontend, access, diagnostician, connections)
    app = HandshakeLimit(_routes(services, operations, settings), rates)
    metrics.connections.set_function(lambda: len(connections))
    server = FrontendServer(server_config(settings, app, connections))
    runtime.tasks.start(connections.run(), "connections")
    runtime.tasks.start(detector.run(), "voice activity")
    if keys_file is not None:
        runtime.tasks.start(keys_file.follow(access), "keys file")
    rpc = RpcServer(settings, services, admission, rates)
    await rpc.open()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await ports.open(frontend, connections, rates)
    await within(_LISTEN_SECONDS, server.accepting.wait(), "the HTTP server")
    _report_listening(settings, port)
    try:
        model, drain = _dynamo_model(frontend), _drain(admission, settings)
        await runtime.serve("frontend", [], until=serving, model=model, drain=drain)
    finally:
        server.should_exit = True
        await asyncio.wait([serving], timeout=10.0)
        await ports.close()
        await rpc.close()
        await decoders.close()
        if turns is not None:
            turns.close()
        await asyncio.to_thread(tracer.close)


async def _listeners(settings: FrontendSettings) -> tuple[VoiceDetector, TurnDetector | None]:
    """Return what finds speech, and the ends of turns if there is a model. Raises SettingsError."""
    detector, turns = VoiceDetector(), None
    await detector.load()
    if settings.turn_model is not None:
        turns = TurnDetector(partial(turn_model, settings.turn_model), settings.turn_threads)
        await turns.load()
    return detector, turns


def _report_listening(settings: FrontendSettings, port: int) -> None:
    scheme = "http" if settings.tls_certificate is None else "https"
    report_status(f"listening at {scheme}://{settings.host}:{port}")


def _show(
    admission: SessionAdmission,
    metrics: FrontendMetrics,
    runtime: Runtime,
    settings: FrontendSettings,
) -> None:
    metrics.sessions.set_function(lambda: admission.open)
    runtime.description.parts = lambda: Parts(
        load=LoadNow("sessions", admission.open, settings.max_sessions)
    )


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


def build_services(
    frontend: Frontend,
    access: Access,
    decoders: DecodingProcesses,
    registry: Registry,
    diagnostician: Diagnostician,
    tokens: Tokens,
) -> Services:
    async def processors() -> int:
        draining = frontend.admission.draining
        return 0 if draining else len(await frontend.endpoints.open.instances())

    settings = frontend.settings
    sockets = SocketSessions(
        *(access, frontend.admission, frontend.live_sessions, settings.slow_reader_seconds)
    )
    resuming = ResumeTokens(tokens, settings.resume_seconds, frontend.model)
    stream = StreamProtocol(frontend, resuming)
    realtime = RealtimeProtocol(frontend)
    stream_protocol = SocketProtocol("stream", stream.serve, stream.error, resumes=True)
    realtime_protocol = SocketProtocol("realtime", realtime.serve, realtime.error, SUBPROTOCOLS)
    listening, turns = listen_protocol(frontend), flux_protocol(frontend)
    transcriber = RecordingTranscriber(frontend, decoders)
    requests = RecordingRequests(frontend, access, transcriber)
    return Services(
        models=frontend.models,
        abilities=frontend.abilities,
        access=access,
        stream=lambda socket: sockets.serve(socket, stream_protocol),
        realtime=lambda socket: sockets.serve(socket, realtime_protocol),
        listen=lambda socket: sockets.serve(socket, listening),
        listen_turns=lambda socket: sockets.serve(socket, turns),
        transcriptions=TranscriptionRequests(requests),
        transcription_openapi=TRANSCRIPTION_OPENAPI,
        translations=TranslationRequests(requests),
        translation_openapi=TRANSLATION_OPENAPI,
        listen_recordings=ListenRecordings(requests),
        listen_openapi=LISTEN_OPENAPI,
        registry=registry,
        processors=processors,
        rpc_methods=grpc_methods(frontend, access, transcriber, processors),
        diagnose=diagnostician.diagnose,
        metrics_need_key=frontend.settings.metrics_need_key,
        sockets=websocket_routes(frontend, access, sockets),
    )


def _routes(
    services: Services, operations: OperationsRoutes, settings: FrontendSettings
) -> ASGIApp:
    app = operations.add_to(create_app(services, settings.cors_origins))
    return with_pages(app, wanted=settings.page)


def _operations(
    runtime: Runtime,
    frontend: Frontend,
    access: Access,
    diagnostician: Diagnostician,
    connections: Connections,
) -> OperationsRoutes:
    admission, limit = frontend.admission, frontend.settings.max_sessions

    def own() -> FrontendState:
        return FrontendState(admission.open, limit, len(connections), admission.draining)

    gatherer = Gatherer.of(runtime, diagnostician.look)
    observatory = Observatory(
        gatherer.gather, own, lambda: access.needs_keys, frontend.text_lags.watch
    )
    return OperationsRoutes(access, admission, observatory, diagnostician.diagnose)


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
