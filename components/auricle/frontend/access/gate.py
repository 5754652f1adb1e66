"""From a request's headers to its client."""

from __future__ import annotations

from collections.abc import Mapping

from auricle.frontend.access.keys import KeyRing
from auricle.frontend.access.limits import Client, Clients

# Browsers cannot set headers of a WebSocket: OpenAI's clients put the key here.
_SUBPROTOCOL_KEY = "openai-insecure-api-key."


class Access:
    """Raises Unauthorized or Forbidden for what it does not let in."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self._clients = Clients()

    def client(self, headers: Mapping[str, str]) -> Client:
        """Whose request this is; `headers` has lower-case names."""
        return self._clients.of(self._keys.find(_secret(headers)))


def subprotocols(headers: Mapping[str, str]) -> list[str]:
    """What a WebSocket client offers to speak, keys left out."""
    return [name for name in _offered(headers) if not name.startswith(_SUBPROTOCOL_KEY)]


def _secret(headers: Mapping[str, str]) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    for name in _offered(headers):
        if name.startswith(_SUBPROTOCOL_KEY):
            return name.removeprefix(_SUBPROTOCOL_KEY)
    return None


def _offered(headers: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
