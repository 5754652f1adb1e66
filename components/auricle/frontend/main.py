"""The frontend process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from auricle.frontend.app import create_app
from auricle.frontend.link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.voice import VoiceDetector
from auricle.frontend.websocket import StreamSessions
from auricle.metrics import Registry
from auricle.runtime import Runtime
from auricle.settings import FrontendSettings
from auricle.status import report_status
from auricle.tasks import within

_LISTEN_SECONDS = 30.0
_PROCESSOR_SECONDS = 600.0


class _Server(uvicorn.Server):
    """uvicorn, leaving signals to the runtime and saying when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(settings: FrontendSettings) -> None:
    """Serve clients until told to stop."""
    listener = _listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    runtime = Runtime(settings)
    endpoints = ProcessorEndpoints(
        runtime.client("processor", "open"),
        runtime.client("processor", "push"),
        runtime.client("processor", "end"),
    )
    report_status("waiting for a processor")
    for endpoint in (endpoints.open, endpoints.push, endpoints.end):
        await endpoint.wait_for_instances(_PROCESSOR_SECONDS)
    registry = Registry()
    metrics = FrontendMetrics(registry.registry)
    model = settings.model.resolve().name
    detector = VoiceDetector(settings.max_queued_seconds)
    await detector.load()
    sessions = StreamSessions(settings, model, endpoints, detector, metrics)

    async def processors() -> int:
        return len(await endpoints.open.instances())

    app = create_app(model, sessions, registry, processors)
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
    )
    server = _Server(config)
    runtime.tasks.start(detector.run(), "voice activity")
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await within(_LISTEN_SECONDS, server.accepting.wait(), "the HTTP server")
    report_status(f"listening at http://{settings.host}:{port}")
    try:
        await runtime.serve("frontend", [], until=serving)
    finally:
        server.should_exit = True
        await asyncio.wait([serving], timeout=10.0)


def _listen(host: str, port: int) -> socket.socket:
    """Bound here, so a taken port is an error before anything else starts."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SystemExit(f"cannot listen on {host}:{port}: {error}") from None
    return listener
