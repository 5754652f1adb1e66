"""Requests as clients of other servers send them: upgrades, HEAD, slashes, half-closed ones."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from asyncio import StreamReader
from collections.abc import AsyncIterator

import httpx
import pytest
import websockets
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from auricle.frontend.transport.app import UsualRequests
from auricle.frontend.transport.connections import ConnectionLimits
from tests.fakes.doors import Door, event_loop_policy
from tests.fakes.front import Front
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Answers a POST with its method, headers and body; `/slow` once it may, `/stream` for ever."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.app.post("/")(self.take)
        self.app.get("/")(self.answer)
        self.app.post("/slow")(self.slow)
        self.app.api_route("/stream", methods=["GET", "POST"])(self.stream)
        self.go, self.cancelled = asyncio.Event(), asyncio.Event()
        self.received: list[str] = []

    async def take(self, request: Request) -> str:
        body = (await request.body()).decode()
        self.received.append(body)
        return body

    async def answer(self) -> str:
        return "hello"

    async def slow(self, request: Request) -> str:
        body = await self.take(request)
        leaving = asyncio.create_task(self._left(request))
        await self.go.wait()
        leaving.cancel()
        return body

    async def _left(self, request: Request) -> None:
        if (await request.receive())["type"] == "http.disconnect":
            self.cancelled.set()
            self.go.set()

    async def stream(self, request: Request) -> StreamingResponse:
        body = await request.body()

        async def events() -> AsyncIterator[bytes]:
            yield body
            await self.go.wait()
            yield b" end"

        return StreamingResponse(events())


async def bodies(reader: StreamReader, count: int) -> list[str]:
    """Read the JSON strings of `count` answers with status 200."""
    found = []
    for _ in range(count):
        head = await reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        found.append(json.loads(await reader.readexactly(length)))
    return found


def post(body: bytes, more: bytes = H2C, version: bytes = b"1.1", path: bytes = b"/") -> bytes:
    head = b"POST %s HTTP/%s\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n"
    return head % (path, version, more, len(body)) + body


def chunked(body: bytes, more: bytes = H2C) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n" % more
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


# ── offers of other protocols ───────────────────────────────────────────────


@pytest.mark.parametrize("offer", [H2C, b"Connection: upgrade\r\nUpgrade: TLS/1.0, irc/6.9\r\n"])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_request_that_offers_another_protocol_is_served_with_its_body(
    offer: bytes, at_once: bool
) -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        requests = post(b"a" * 3_000, offer) + chunked(b"chunk", offer) + GET
        for piece in [requests] if at_once else [requests[n : n + 1] for n in range(len(requests))]:
            writer.write(piece)
            if not at_once:
                await writer.drain()
        assert await bodies(reader, 3) == ["a" * 3_000, "chunk", "hello"]
        writer.close()


async def test_a_websocket_offer_with_a_post_is_ignored() -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(post(b"recording", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))
        assert await bodies(reader, 1) == ["recording"]
        writer.close()


async def test_bytes_behind_an_offer_are_requests_of_their_own() -> None:
    """A body with a request in it stays a body, and a request behind the body is a request."""
    door, app = Door(), App()
    inner = post(b"inner")
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(post(inner) + chunked(inner) + post(b"next", b"") + post(b"last"))
        text = inner.decode()
        assert await bodies(reader, 4) == [text, text, "next", "last"]
        writer.close()
    assert app.received == [text, text, "next", "last"]


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding:\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 5 5\r\n",
    ],
)
async def test_an_offer_makes_no_ambiguous_framing_valid(framing: bytes) -> None:
    door, app = Door(ConnectionLimits()), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + H2C + framing + b"\r\nhello" + GET)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 400")
        writer.close()
    assert not app.received


async def test_a_client_that_offers_another_protocol_is_told_to_continue() -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        whole = post(b"body", H2C + b"Expect: 100-continue\r\n")
        writer.write(whole[:-4])
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(whole[-4:])
        assert await bodies(reader, 1) == ["body"]
        writer.close()


async def test_curl_may_ask_for_http_2() -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        curl = await asyncio.create_subprocess_exec(
            *(
                "curl",
                "--http2",
                "-s",
                "-m",
                "60",
                "-d",
                "spoken",
                f"http://127.0.0.1:{door.port}/",
            ),
            stdout=subprocess.PIPE,
        )
        assert await curl.communicate() == (b'"spoken"', None)


async def test_a_websocket_is_found_among_several_connection_headers() -> None:
    front = Front()
    async with front.serving():
        address = front.url.replace("http", "ws") + "/v1/realtime"
        headers = [("Connection", "keep-alive"), ("Connection", "x")]
        async with websockets.connect(address, additional_headers=headers) as server:
            assert json.loads(await server.recv())["type"] == "session.created"


# ── half-closed connections ─────────────────────────────────────────────────


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_client_that_only_stops_sending_gets_its_answer(version: bytes) -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(post(b"spoken", b"", version, b"/slow"))
        await until(lambda: app.received == ["spoken"])
        writer.write_eof()
        await until(lambda: any(c._half_closed for c in door.connections._open))  # type: ignore[attr-defined]
        door.after(1.0)
        app.go.set()
        assert await bodies(reader, 1) == ["spoken"]
        assert await reader.read() == b""
        writer.close()
    assert not app.cancelled.is_set()


async def test_a_client_that_stops_sending_gets_its_stream() -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(post(b"spoken", b"", path=b"/stream"))
        await reader.readuntil(b"spoken")
        writer.write_eof()
        await until(lambda: any(c._half_closed for c in door.connections._open))  # type: ignore[attr-defined]
        app.go.set()
        assert b" end" in await reader.read()
        writer.close()


async def test_the_work_of_a_client_that_left_ends() -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        with socket.create_connection(("127.0.0.1", door.port)) as client:
            client.sendall(post(b"spoken", b"", path=b"/slow"))
            await until(lambda: app.received == ["spoken"])

        def cancelled() -> bool:
            door.after(0.5)
            return app.cancelled.is_set()

        await until(cancelled)
        await until(lambda: len(door.connections) == 0)


@pytest.mark.parametrize("part", [b"GET / HT", post(b"body", b"")[:-2]])
async def test_a_client_that_stops_within_its_request_is_closed(part: bytes) -> None:
    door, app = Door(), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(part)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


# ── methods and paths ───────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/live", "/health", "/metrics", "/v1/models", "/openapi.json"])
async def test_head_has_the_headers_of_get(path: str) -> None:
    front = Front()
    async with front.serving(), httpx.AsyncClient(base_url=front.url) as client:
        got, head = await client.get(path), await client.head(path)
    assert head.status_code == got.status_code
    assert head.content == b""
    for name in ("content-type", "content-length"):
        if path != "/metrics" or name != "content-length":
            assert head.headers[name] == got.headers[name]


async def test_the_head_of_an_endless_stream_ends() -> None:
    door, app = Door(), App()
    async with door.serving(UsualRequests(app.app)):
        reader, writer = await door.connect()
        writer.write(GET.replace(b"GET /", b"HEAD /stream") + GET)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await bodies(reader, 1) == ["hello"]
        writer.close()


async def test_a_slash_at_the_end_of_a_path_is_ignored() -> None:
    front = Front()
    async with front.serving(), httpx.AsyncClient(base_url=front.url) as client:
        assert (await client.get("/v1/models/")).json() == (await client.get("/v1/models")).json()
        answer = await client.post("/v1/audio/transcriptions/", data={"model": "demo"})
        assert answer.json()["error"]["message"].startswith("the body must be multipart/form-data")
        async with front.connect("/v1/realtime/?model=demo") as server:
            assert json.loads(await server.recv())["type"] == "session.created"


async def test_a_model_may_have_a_slash_in_its_name() -> None:
    front = Front(model_aliases=("me/model",))
    async with front.serving(), httpx.AsyncClient(base_url=front.url) as client:
        assert (await client.get("/v1/models/me/model")).json()["id"] == "me/model"
        assert (await client.get("/v1/models/me%2Fmodel")).json()["id"] == "me/model"


async def test_a_websocket_at_an_unknown_path_is_told_the_paths() -> None:
    front = Front()
    async with front.serving():
        for path in ("/v1/realtimes", "/", "/v1/models"):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with front.connect(path):
                    pass
            assert refused.value.response.status_code == 404
            error = json.loads(refused.value.response.body)["error"]
            assert error["code"] == "unknown_path"
            assert error["message"] == (
                f"no WebSocket is at '{path}'; they are at /v1/audio/stream, /v1/listen, "
                "/v1/realtime, /v1/realtime/translations, /v1/twilio, /v1/vapi, /v2/listen, /v3/ws"
            )


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/listen", "/v3/ws/"])
async def test_a_get_of_a_websocket_path_is_told_to_upgrade(path: str) -> None:
    front = Front()
    async with front.serving():
        answer = await front.get(path)
    assert answer.status_code == 426
    assert answer.headers["upgrade"] == "websocket"
    error = answer.json()["error"]
    assert error["code"] == "upgrade_required"
    assert "needs the headers Upgrade: websocket" in error["message"]
