"""WebSockets of other services' protocols, each with a path of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from auricle.frontend.assemblyai.streaming import assemblyai_protocol
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.app import WebSocketSessions
from auricle.frontend.doors.late_sockets import LateSockets
from auricle.frontend.doors.sockets import SocketSessions
from auricle.frontend.frontend import Frontend
from auricle.frontend.realtime.translations import translations_protocol
from auricle.frontend.twilio.session import twilio_protocol
from auricle.frontend.vapi.session import vapi_protocol


def socket_ways(
    frontend: Frontend, access: Access, sockets: SocketSessions
) -> Mapping[str, WebSocketSessions]:
    """Return what serves a socket of each path."""
    late = LateSockets(frontend.front_door, frontend.live_sessions)
    return {
        "/v1/realtime/translations": partial(
            sockets.serve, protocol=translations_protocol(frontend)
        ),
        "/v1/twilio": partial(late.serve, protocol=twilio_protocol(frontend, access)),
        "/v1/vapi": partial(sockets.serve, protocol=vapi_protocol(frontend)),
        "/v3/ws": partial(sockets.serve, protocol=assemblyai_protocol(frontend)),
    }
