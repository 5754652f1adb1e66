"""WebSockets of other services' protocols, each with a path of its own."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from auricle.checkpoints.languages import FAMILY, language_name
from auricle.config.settings import FrontendSettings
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol
from auricle.frontend.protocols.audiosocket import audiosocket_protocol
from auricle.frontend.protocols.kserve.service import kserve_methods
from auricle.frontend.protocols.realtime.translations import translations_protocol
from auricle.frontend.protocols.riva.service import riva_methods
from auricle.frontend.protocols.twilio import twilio_protocol
from auricle.frontend.protocols.vapi import vapi_protocol
from auricle.frontend.protocols.wyoming import wyoming_protocol
from auricle.frontend.recordings.calls import RecordingCalls
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.transport.access.gate import Access, check_keyless
from auricle.frontend.transport.app import WebSocketSessions
from auricle.frontend.transport.connections import Connections
from auricle.frontend.transport.grpc.incoming import Methods
from auricle.frontend.transport.in_band_auth import InBandAuthSockets
from auricle.frontend.transport.slots import RateLimiter
from auricle.frontend.transport.tcp import TcpProtocol, TcpServer
from auricle.frontend.transport.websockets import SocketSessions
from auricle.process.metrics import report_status


def websocket_routes(
    frontend: Frontend, access: Access, sockets: SocketSessions
) -> Mapping[str, WebSocketSessions]:
    """Return what serves a socket of each path."""
    late = InBandAuthSockets(frontend.admission, frontend.live_sessions)
    return {
        "/v1/realtime/translations": partial(
            sockets.serve, protocol=translations_protocol(frontend)
        ),
        "/v1/twilio": partial(late.serve, protocol=twilio_protocol(frontend, access)),
        "/v1/vapi": partial(sockets.serve, protocol=vapi_protocol(frontend)),
        "/v3/ws": partial(sockets.serve, protocol=assemblyai_protocol(frontend)),
    }


# The services of the gRPC port.


def grpc_methods(
    frontend: Frontend,
    access: Access,
    transcriber: RecordingTranscriber,
    processors: Callable[[], Awaitable[int]],
) -> Methods:
    """Return the methods of all services; `processors` returns how many can be called now."""
    recordings = RecordingCalls(frontend, access, transcriber)
    return {
        **riva_methods(frontend, access, recordings),
        **kserve_methods(frontend, access, recordings, processors),
    }


# The ways in that have a TCP port of their own, as far as the settings name one.


class TcpPorts:
    """Binds the ports when it is made; serves them from `open` to `close`."""

    def __init__(
        self,
        settings: FrontendSettings,
        access: Access,
        listen: Callable[[str, int], socket.socket],
    ) -> None:
        """Raises SettingsError if their clients could not be let in, what `listen` raises else."""
        self._access = access
        self._host = settings.host
        used = settings.keyless_ports
        check_keyless(settings, access)
        self._listeners = {name: listen(settings.host, number) for name, number in used.items()}
        self._servers: list[TcpServer] = []

    async def open(self, frontend: Frontend, connections: Connections, rates: RateLimiter) -> None:
        """Accept clients."""
        for name, listener in self._listeners.items():
            protocol = self._protocol(name, frontend)
            sessions = frontend.live_sessions
            server = TcpServer(protocol, connections, rates, frontend.admission, sessions)
            self._servers.append(server)
            await server.start(listener)
            report_status(f"{name} at {self._host}:{listener.getsockname()[1]}")

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            await server.close()

    def _protocol(self, name: str, frontend: Frontend) -> TcpProtocol:
        if name == "audiosocket":
            return audiosocket_protocol(frontend, self._access)
        # Those of Qwen3-ASR, if the model is not on this machine.
        languages = tuple(map(language_name, frontend.spoken.languages)) or FAMILY
        return wyoming_protocol(frontend, self._access, languages)
