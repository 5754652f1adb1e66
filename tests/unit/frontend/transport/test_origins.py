"""The web pages that may open WebSockets: the rule of CORS applies."""

from __future__ import annotations

import asyncio
import json

import pytest
import websockets
from starlette.types import Message, Receive, Scope, Send

from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.addresses import SocketOrigins
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
PATHS = (
    *("/v1/audio/stream", "/v1/realtime"),
    *("/v1/listen?encoding=linear16&sample_rate=16000", "/v3/ws?sample_rate=16000"),
)
LISTED = "https://pages.example"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("origin", "listed"),
    [
        ("https://other.example", LISTED),
        ("null", LISTED),
        ("https://pages.example.evil", LISTED),
        ("http://pages.example", LISTED),
        ("http://localhost:1", ""),
        ("http://[", ""),
    ],
)
async def test_a_page_that_is_not_listed_is_refused(path: str, origin: str, listed: str) -> None:
    front = Front(cors_origins=(listed,) if listed else ())
    async with asyncio.timeout(120), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with front.connect(path, origin=origin):
                pass
    assert refused.value.response.status_code == 403
    error = json.loads(refused.value.response.body)["error"]
    assert (error["code"], error["type"]) == ("forbidden", "permission_error")
    assert "Frontend.cors_origins" in error["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("listed", [LISTED, "*"])
async def test_a_page_that_is_listed_may_call(path: str, listed: str) -> None:
    front = Front(cors_origins=(listed,))
    async with asyncio.timeout(120), front.serving(), front.connect(path, origin=LISTED):
        pass


@pytest.mark.parametrize(
    ("origin", "host", "may_call"),
    [
        ("https://asr.example", "asr.example", True),  # a proxy terminates TLS
        ("https://asr.example", "asr.example:443", True),
        ("http://asr.example:8080", "asr.example:8080", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("http://ASR.example", "asr.example", True),
        ("https://asr.example:8443", "asr.example", False),
        ("https://asr.example", "asr.example:8080", False),
        ("https://else.example", "asr.example", False),
        ("null", "", False),
        ("", "", False),
        ("https://asr.example:99999", "asr.example", False),
    ],
)
async def test_a_page_of_the_host_that_was_asked_may_call(
    origin: str, host: str, may_call: bool
) -> None:
    served = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        served.append(scope)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(_message: Message) -> None:
        pass

    headers = [(b"origin", origin.encode()), (b"host", host.encode())]
    scope = {"type": "websocket", "headers": headers, "client": ("10.0.0.1", 1)}
    scope |= {"extensions": {"websocket.http.response": {}}}
    await SocketOrigins(app, ())(scope, receive, send)
    assert bool(served) == may_call


async def test_a_page_of_the_same_host_may_call_and_so_may_a_program() -> None:
    front = Front()
    async with asyncio.timeout(120), front.serving():
        for origin in (front.url, None):
            async with front.connect("/v1/realtime", origin=origin):
                pass


@pytest.mark.parametrize("path", PATHS[:2])
async def test_a_page_may_offer_its_key_alone(path: str) -> None:
    secret, entry = new_key("acme")
    offered = f"openai-insecure-api-key.{secret}"
    front = Front([entry], cors_origins=(LISTED,))
    async with (
        asyncio.timeout(120),
        front.serving(),
        front.connect(path, origin=LISTED, subprotocols=[offered]) as socket,
    ):
        assert socket.subprotocol == offered
