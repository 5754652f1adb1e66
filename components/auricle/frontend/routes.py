"""The routes of all protocols: WebSocket and HTTP paths, gRPC services and TCP ports."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from auricle.checkpoints.languages import FAMILY, language_name
from auricle.config.settings import FrontendSettings
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol
from auricle.frontend.protocols.audiosocket import audiosocket_protocol
from auricle.frontend.protocols.deepgram.flux import flux_protocol
from auricle.frontend.protocols.deepgram.live import listen_protocol
from auricle.frontend.protocols.deepgram.recordings import LISTEN_OPENAPI, ListenRecordings
from auricle.frontend.protocols.kserve.service import kserve_methods
from auricle.frontend.protocols.realtime.socket import SUBPROTOCOLS, RealtimeProtocol
from auricle.frontend.protocols.realtime.translations import translations_protocol
from auricle.frontend.protocols.riva.service import riva_methods
from auricle.frontend.protocols.stream.resume import ResumeTokens
from auricle.frontend.protocols.stream.session import StreamProtocol
from auricle.frontend.protocols.transcriptions.endpoint import TranscriptionRequests
from auricle.frontend.protocols.transcriptions.translating import (
    TRANSCRIPTION_OPENAPI,
    TRANSLATION_OPENAPI,
    TranslationRequests,
)
from auricle.frontend.protocols.twilio import twilio_protocol
from auricle.frontend.protocols.vapi import vapi_protocol
from auricle.frontend.protocols.wyoming import wyoming_protocol
from auricle.frontend.recordings.calls import RecordingCalls
from auricle.frontend.recordings.jobs.queue import JOBS
from auricle.frontend.recordings.jobs.routes import (
    TRANSCRIPTIONS,
    SubmittedTranscriptions,
    later,
    now_or_later,
)
from auricle.frontend.recordings.requests import RecordingEndpoint, RecordingRequests
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.transport.access.gate import Access, check_keyless
from auricle.frontend.transport.admission import Readiness
from auricle.frontend.transport.app import RecordingRoute, WebSocketSessions
from auricle.frontend.transport.connections import Connections
from auricle.frontend.transport.grpc.incoming import Methods
from auricle.frontend.transport.in_band_auth import InBandAuthSockets
from auricle.frontend.transport.tcp import TcpProtocol, TcpServer
from auricle.frontend.transport.websockets import SocketProtocol, SocketSessions
from auricle.process.metrics import report_status

_TRANSLATIONS, _LISTEN = "/v1/audio/translations", "/v1/listen"


def websocket_routes(
    frontend: Frontend, access: Access, resuming: ResumeTokens
) -> dict[str, WebSocketSessions]:
    """Return the handler of each path."""
    settings = frontend.settings
    sockets = SocketSessions(
        access, frontend.admission, frontend.live_sessions, settings.slow_reader_seconds
    )
    stream, realtime = StreamProtocol(frontend, resuming), RealtimeProtocol(frontend)
    protocols = {
        "/v1/audio/stream": SocketProtocol(
            "stream", stream.serve, stream.error, resumes=True, refuses_in_band_if_asked=True
        ),
        "/v1/realtime": SocketProtocol(
            "realtime", realtime.serve, realtime.error, SUBPROTOCOLS, refuses_in_band=True
        ),
        _LISTEN: listen_protocol(frontend),
        "/v2/listen": flux_protocol(frontend),
        "/v1/realtime/translations": translations_protocol(frontend),
        "/v1/vapi": vapi_protocol(frontend),
        "/v3/ws": assemblyai_protocol(frontend),
    }
    in_band = InBandAuthSockets(frontend.admission, frontend.live_sessions)
    return {
        **{path: partial(sockets.serve, protocol=one) for path, one in protocols.items()},
        "/v1/twilio": partial(in_band.serve, protocol=twilio_protocol(frontend, access)),
    }


def recording_endpoints(requests: RecordingRequests) -> dict[str, RecordingEndpoint]:
    """Return the endpoint of each path."""
    return {
        TRANSCRIPTIONS: TranscriptionRequests(requests),
        _TRANSLATIONS: TranslationRequests(requests),
        _LISTEN: ListenRecordings(requests),
    }


def recording_routes(
    requests: RecordingRequests, endpoints: Mapping[str, RecordingEndpoint]
) -> dict[str, RecordingRoute]:
    """Return the route of each of `recording_endpoints`, and the one that submits jobs."""
    transcriptions = endpoints[TRANSCRIPTIONS]
    return {
        TRANSCRIPTIONS: RecordingRoute(
            "create_transcription",
            "Transcribe a recording, as OpenAI's API does.",
            transcriptions,
            now_or_later(TRANSCRIPTION_OPENAPI),
        ),
        _TRANSLATIONS: RecordingRoute(
            "create_translation",
            "Transcribe a recording and translate it, as OpenAI's API and vLLM's do.",
            endpoints[_TRANSLATIONS],
            now_or_later(TRANSLATION_OPENAPI),
        ),
        _LISTEN: RecordingRoute(
            "listen_to_recording",
            "Transcribe a recording, as Deepgram's API does.",
            endpoints[_LISTEN],
            now_or_later(LISTEN_OPENAPI),
        ),
        JOBS: RecordingRoute(
            "create_job",
            "Transcribe a recording later: as create_transcription with Prefer: respond-async.",
            SubmittedTranscriptions(requests, transcriptions),
            later(TRANSCRIPTION_OPENAPI),
        ),
    }


def grpc_methods(
    frontend: Frontend,
    access: Access,
    transcriber: RecordingTranscriber,
    readiness: Callable[[], Awaitable[Readiness]],
) -> Methods:
    """Return the methods of all services; `readiness` returns whether sessions can be served."""
    recordings = RecordingCalls(frontend, access, transcriber)
    return {
        **riva_methods(frontend, access, recordings),
        **kserve_methods(frontend, access, recordings, readiness),
    }


class TcpPorts:
    """The protocols with their own TCP port, if the settings name one.

    Binds the ports when it is made; serves them from `open` to `close`.
    """

    def __init__(
        self,
        settings: FrontendSettings,
        access: Access,
        listen: Callable[[str, int], socket.socket],
    ) -> None:
        """Raises SettingsError if their clients could not be admitted, and as `listen` does."""
        self._access = access
        self._host = settings.host
        used = settings.keyless_ports
        check_keyless(settings, access)
        self._listeners = {name: listen(settings.host, number) for name, number in used.items()}
        self._servers: list[TcpServer] = []

    async def open(self, frontend: Frontend, connections: Connections) -> None:
        for name, listener in self._listeners.items():
            protocol = self._protocol(name, frontend)
            sessions = frontend.live_sessions
            server = TcpServer(protocol, connections, frontend.admission, sessions)
            self._servers.append(server)
            await server.start(listener)
            report_status(f"{name} at {self._host}:{listener.getsockname()[1]}")

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def _protocol(self, name: str, frontend: Frontend) -> TcpProtocol:
        if name == "audiosocket":
            return audiosocket_protocol(frontend, self._access)
        # Those of Qwen3-ASR, if the model is not on this machine.
        languages = tuple(map(language_name, frontend.spoken.languages)) or FAMILY
        return wyoming_protocol(frontend, self._access, languages)
