"""The web pages that may open WebSockets: the rule of CORS applies."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
import websockets
from starlette.types import Message, Receive, Scope, Send

from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.hosts import AllowedHosts, SocketOrigins, allowed_hosts
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


@pytest.mark.parametrize("path", [*PATHS, "/v1/realtime/translations", "/v1/twilio", "/v1/vapi"])
async def test_a_page_whose_name_was_bound_to_this_server_may_not_open_a_websocket(
    path: str,
) -> None:
    """DNS rebinding: to the browser the page and the server are of the same host."""
    front = Front()
    async with asyncio.timeout(120), front.serving():
        port = front.url.rpartition(":")[2]
        origin = f"http://evil.example:{port}"
        uri = f"ws://evil.example:{port}{path}"
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(uri, host="127.0.0.1", port=int(port), origin=origin):
                pass
    assert refused.value.response.status_code == 421
    error = json.loads(refused.value.response.body)["error"]
    assert error["code"] == "unknown_host"
    assert "Frontend.allowed_hosts" in error["message"]


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/health", "/docs", "/nothing"])
async def test_a_page_whose_name_was_bound_to_this_server_gets_no_answer(path: str) -> None:
    front = Front()
    async with asyncio.timeout(120), front.serving(), httpx.AsyncClient() as client:
        refused = await client.get(front.url + path, headers={"Host": "evil.example"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (421, "unknown_host")


@pytest.mark.parametrize("upgrade", [True, False])
async def test_two_hosts_are_refused(upgrade: bool) -> None:
    """The server and a proxy before it could read another one each."""
    head = ["GET /v1/realtime HTTP/1.1", "Host: localhost", "Host: evil.example"]
    if upgrade:
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        head += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", key]
    else:
        head += ["Connection: close"]
    front = Front([new_key("acme")[1]], host="0.0.0.0")  # where any name is allowed
    async with asyncio.timeout(120), front.serving():
        port = int(front.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write("\r\n".join([*head, "", ""]).encode())
        answer = await reader.readuntil(b"}}")
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"one Host header" in answer


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:8080", True),
        ("10.1.2.3", True),  # a probe by a pod's address, a client on the LAN
        ("[::1]:8080", True),
        ("[2001:db8::1]", True),
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("auricle.localhost", True),
        ("auricle", True),  # in a network of containers
        ("asr.example.com", True),
        ("ASR.example.com.:443", True),
        ("one.pods.example", True),
        ("pods.example", False),
        ("evil.example", False),
        ("asr.example.com.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example:99999999", False),
        ("[::1", False),
        ("127.0.0.1 evil.example", False),
    ],
)
async def test_a_server_has_its_addresses_and_the_names_that_are_listed(
    host: str, known: bool
) -> None:
    status = await asked([host], ("asr.example.com", "*.pods.example"))
    assert status == (200 if known else 421)


async def test_the_name_does_not_matter_to_programs_and_where_all_are_allowed() -> None:
    assert await asked([], ()) == 200
    assert await asked(["evil.example"], ("*",)) == 200
    assert await asked(["evil.example", "evil.example"], ("*",)) == 400


@pytest.mark.parametrize(
    ("names", "listening_at", "keys", "allowed"),
    [
        ((), "127.0.0.1", False, ()),
        ((), "localhost", False, ()),
        ((), "127.0.0.1", True, ("*",)),
        ((), "0.0.0.0", False, ("*",)),
        (("asr.example.com",), "0.0.0.0", True, ("asr.example.com",)),
    ],
)
def test_names_are_checked_by_default_where_an_address_gives_access_on_this_machine(
    names: tuple[str, ...], listening_at: str, keys: bool, allowed: tuple[str, ...]
) -> None:
    assert allowed_hosts(names, listening_at, keys=keys) == allowed


async def asked(hosts: list[str], names: tuple[str, ...]) -> int:
    """The status of a request with these `Host` headers."""
    sent: list[Message] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        raise AssertionError("no body")

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", host.encode()) for host in hosts]
    scope = {"type": "http", "headers": headers, "client": ("10.0.0.1", 1)}
    await AllowedHosts(app, names)(scope, receive, send)
    return int(sent[0]["status"])


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
