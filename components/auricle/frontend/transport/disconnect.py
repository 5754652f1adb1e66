"""Exceptions for clients that disconnected, by themselves or after a protocol violation."""

from __future__ import annotations

from starlette.types import Message

from auricle.core.errors import ProtocolError, TooLarge

# Key of the disconnect message of a connection that failed: a client may send any close code.
FAILED = "auricle.failed"
_TOO_BIG = 1009  # close code


class ClientDisconnected(Exception):
    """The client closed the connection or vanished, so nothing more can be sent."""

    outcome = "client_gone"


class ProtocolViolation(ClientDisconnected):
    """The server closed the connection because the client broke the protocol."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.outcome = (TooLarge if code == _TOO_BIG else ProtocolError).code


def check_connected(message: Message) -> None:
    """Raise ClientDisconnected for a disconnect message."""
    if message["type"] != "websocket.disconnect":
        return
    if message.get(FAILED):
        raise ProtocolViolation(message["code"], message["reason"])
    raise ClientDisconnected
