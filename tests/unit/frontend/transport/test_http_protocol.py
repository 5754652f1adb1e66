"""Slow, large, malformed and numerous HTTP requests, over real connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvloop
from fastapi import FastAPI, Request, WebSocket

from auricle.core.errors import Unauthorized
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from auricle.frontend.transport.connections import ConnectionLimits
from auricle.frontend.transport.http_protocol import HttpProtocol
from auricle.frontend.transport.server import HandshakeLimit
from auricle.frontend.transport.slots import NetworkRates
from auricle.process.logs import Repeats
from tests.fakes.clock import Clock
from tests.fakes.doors import Door, event_loop_policy
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
LIMITS = ConnectionLimits(head_seconds=10.0, keep_alive_seconds=15.0, reader_seconds=20.0)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
SLOW = GET.replace(b"/ ", b"/slow ")
HANDSHAKE = (
    b"GET /listen HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class App:
    def __init__(self) -> None:
        self.app = FastAPI()
        self.app.get("/")(self.answer)
        self.app.post("/")(self.take)
        self.app.get("/large")(self.large)
        self.app.get("/slow")(self.slow)
        self.app.get("/live")(self.answer)
        self.app.websocket("/listen")(self.listen)
        self.answered = 0
        self.waiting, self.slow_answers = False, 0
        self.go = asyncio.Event()

    async def answer(self) -> str:
        self.answered += 1
        return "hello"

    async def take(self, request: Request) -> int:
        return len(await request.body())

    async def large(self) -> str:
        return "x" * 50_000_000

    async def slow(self) -> str:
        self.waiting = True
        await self.go.wait()
        self.slow_answers += 1
        return "at last"

    async def listen(self, client: WebSocket) -> None:
        await client.accept()
        await client.send_text("welcome")
        await client.close()


def error_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return int(head.split()[1]), json.loads(body)["error"]["message"]


async def heard(door: Door, what: bytes) -> None:
    """Wait until the server has received `what`."""
    await until(lambda: any(c._head_bytes >= len(what) for c in door.connections._open))  # type: ignore[attr-defined]


async def connected(door: Door, number: int) -> None:
    await until(lambda: len(door.connections) == number)


# ── deadlines ───────────────────────────────────────────────────────────────


async def test_these_tests_run_on_the_frontends_event_loop() -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)


async def test_a_connection_that_sends_nothing_is_closed() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        await connected(door, 1)
        door.after(9.9)
        assert len(door.connections) == 1
        door.after(0.2)
        assert await reader.read() == b""
        writer.close()


async def test_headers_that_take_too_long_are_answered_with_408() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        for line in (b"GET / HTTP/1.1\r\n", b"host: x\r\n", b"a: b\r\n"):
            writer.write(line)
            await heard(door, line)
            door.after(4.0)  # an occasional line does not extend the deadline
        status, message = error_of(await reader.readuntil(b"}}"))
        assert (status, message) == (408, "the request's line and headers took longer than 10 s")
        door.after(2.0)
        assert await reader.read() == b""
        writer.close()


async def test_the_next_request_has_its_own_deadline() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        for _ in range(3):
            writer.write(GET)
            assert b"200 OK" in await reader.readuntil(b'"hello"')
            door.after(9.0)
        door.after(9.0)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("connection", [b"keep-alive", b"close"])
async def test_the_rest_of_a_request_that_was_answered_is_not_waited_for_for_ever(
    connection: bytes,
) -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: %s\r\ncontent-length: 1000\r\n\r\n"
        writer.write(head % connection)
        await reader.readuntil(b'"hello"')
        for _ in range(2):
            writer.write(b"x")
            await writer.drain()
            door.after(2.6)
        await connected(door, 0)
        writer.close()


@pytest.mark.parametrize("closing", [b"HTTP/1.1\r\nconnection: close", b"HTTP/1.0"])
async def test_an_answer_before_the_end_of_the_request_reaches_a_client_that_wants_no_other(
    closing: bytes,
) -> None:
    """Closing a connection with unread bytes would reset it, and the answer might be lost."""
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        body = bytes(8_000_000)  # more than the sockets hold
        writer.write(b"GET / %s\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (closing, len(body)))
        await reader.readuntil(b'"hello"')
        writer.write(body)
        await writer.drain()
        assert await reader.read() == b""
        await connected(door, 0)
        writer.close()


async def test_a_request_in_work_has_no_deadline_of_the_connection() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(GET.replace(b"/ ", b"/slow ") + GET[:5])
        await connected(door, 1)
        (connection,) = door.connections._open
        await until(lambda: connection.cycle is not None)  # type: ignore[attr-defined]
        door.after(1000.0)
        app.go.set()
        await reader.readuntil(b'"at last"')
        writer.write(GET[5:])
        await reader.readuntil(b'"hello"')
        writer.close()


async def test_a_client_that_does_not_read_its_answer_is_cut() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(GET.replace(b"/ ", b"/large "))
        await connected(door, 1)
        (connection,) = door.connections._open
        await until(lambda: connection._watch._stalled_at is not None)  # type: ignore[attr-defined]
        door.after(19.0)
        assert len(door.connections) == 1
        door.after(2.0)
        await connected(door, 0)
        writer.close()


async def test_a_tls_handshake_has_a_deadline(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    door, app = Door(ConnectionLimits(head_seconds=3.0)), App()
    async with door.serving(app.app, ssl_certfile=certificate, ssl_keyfile=key):
        reader, writer = await door.connect()
        assert await reader.read() == b""  # and sends nothing
        writer.close()
        async with httpx.AsyncClient(verify=trusted, timeout=60) as client:
            assert (await client.get(f"https://127.0.0.1:{door.port}/")).status_code == 200


# ── malformed or excessive HTTP ─────────────────────────────────────────────


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"\x16\x03\x01\x02", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"),
        *(b"CONNECT x:1 HTTP/1.1\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"),
    ],
)
async def test_garbage_is_answered_with_400_and_counted_as_a_refusal(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    door, app = Door(LIMITS), App()
    told = (400, "malformed HTTP request")
    async with door.serving(app.app):
        with caplog.filtering(Repeats(lambda *_: None)):
            for _ in range(30):
                reader, writer = await door.connect()
                writer.write(garbage)
                assert error_of(await reader.readuntil(b"}}")) == told
                writer.close()
    assert len([record for record in caplog.records if "HTTP request" in record.message]) == 10


async def test_a_broken_body_ends_the_connection() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        reader, writer = await door.connect()
        writer.write(head + b"zzz\r\n")
        assert error_of(await reader.readuntil(b"}}"))[0] == 400
        door.after(1.1)
        assert await reader.read() == b""
        writer.close()


CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"


async def test_trailers_are_dropped() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(CHUNKED + b"0\r\nx-trailer: a\r\nauthorization: Bearer b\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n5")).startswith(b"HTTP/1.1 200")
        (connection,) = door.connections._open
        names = [name for name, _ in connection.headers]  # type: ignore[attr-defined]
        assert names == [b"host", b"transfer-encoding"]
        writer.write(GET)  # the connection continues
        assert b"200 OK" in await reader.readuntil(b'"hello"')
        writer.close()


@pytest.mark.parametrize(
    "endless",
    [
        b"0\r\n" + b"a: b\r\n" * 50_000,
        b"0\r\na: " + b"b" * 300_000,
        b"5;x=" + b"y" * 300_000,
        b"0" * 300_000,
    ],
)
@pytest.mark.parametrize("path", [b"/", b"/live"])
async def test_endless_trailers_end_the_connection(endless: bytes, path: bytes) -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(CHUNKED.replace(b"POST /", b"POST " + path) + endless)
        await reader.readuntil(b"trailers have more than 8192 bytes")
        door.after(2.0)
        await connected(door, 0)
        writer.close()


@pytest.mark.parametrize("piece", [b"a: b\r\n", b"y" * 1000])
async def test_endless_headers_are_refused(piece: bytes) -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(b"GET / HTTP/1.1\r\nx: " + piece * (300_000 // len(piece)))
        status, message = error_of(await reader.readuntil(b"}}"))
        assert status == 431
        assert message == "the request's line and headers have more than 65536 bytes"
        writer.close()


async def test_a_large_body_and_its_headers_are_taken() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app), httpx.AsyncClient(timeout=60) as client:
        url = f"http://127.0.0.1:{door.port}/"
        headers = {f"x-{number}": "y" * 1000 for number in range(50)}
        answer = await client.post(url, content=bytes(5_000_000), headers=headers)
        assert answer.json() == 5_000_000

        async def tiny() -> Any:
            for _ in range(5_000):
                yield b"x"

        assert (await client.post(url, content=tiny())).json() == 5_000


async def test_many_requests_at_once_are_answered_one_after_the_other() -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(GET * 3_000)
        for _ in range(3_000):
            await reader.readuntil(b'"hello"')
            (connection,) = door.connections._open
            assert len(connection.pipeline) < 100  # type: ignore[attr-defined]
        writer.close()
    assert app.answered == 3_000


@pytest.mark.parametrize("early", [0, 1, len(HANDSHAKE) - 2, len(HANDSHAKE)])
async def test_a_handshake_waits_for_the_answer_to_the_request_before_it(early: int) -> None:
    """`early` bytes of the handshake are received before that answer."""
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        writer.write(SLOW + HANDSHAKE[:early])
        await until(lambda: app.waiting)
        app.go.set()
        assert b"200 OK" in await reader.readuntil(b'"at last"')
        writer.write(HANDSHAKE[early:])
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert b"welcome" in await reader.readuntil(b"welcome")
        writer.close()


# ── numbers ─────────────────────────────────────────────────────────────────


async def test_one_address_may_have_so_many_connections() -> None:
    door, app = Door(ConnectionLimits(per_address=3)), App()
    async with door.serving(app.app):
        held = [await door.connect() for _ in range(3)]
        await connected(door, 3)
        status, message = error_of(await door_answer(door))
        assert (status, message) == (429, "you have 3 connections open; end one first")
        held.pop()[1].close()
        await until(lambda: len(door.connections._open) <= 2)
        reader, writer = await door.connect()
        writer.write(GET)
        assert b"200 OK" in await reader.readuntil(b'"hello"')
        for _, each in (*held, (reader, writer)):
            each.close()


async def door_answer(door: Door) -> bytes:
    reader, writer = await door.connect()
    writer.write(GET)
    answer = await reader.readuntil(b"}}")
    assert b"retry-after: 5\r\n" in answer.lower()
    writer.close()
    return answer


async def test_there_is_an_end_to_connections() -> None:
    door, app = Door(ConnectionLimits(most=2)), App()
    async with door.serving(app.app):
        held = [await door.connect() for _ in range(2)]
        await connected(door, 2)
        for connection in door.connections._open:
            door.connections.used(connection, 1)
        assert error_of(await door_answer(door)) == (503, "all 2 connections are in use")
        for _, writer in held:
            writer.close()


@pytest.mark.parametrize("waiting", [SLOW, HANDSHAKE])
async def test_an_answer_on_an_ended_connection_is_dropped_although_another_request_waits(
    caplog: pytest.LogCaptureFixture, waiting: bytes
) -> None:
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        _, writer = await door.connect()
        writer.write(SLOW + waiting)
        await until(lambda: app.waiting)
        (connection,) = door.connections._open
        connection.abort()
        await connected(door, 0)
        app.go.set()
        await until(lambda: app.slow_answers == 1)
        writer.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_idle_connections_without_a_key_make_room() -> None:
    door, app = Door(ConnectionLimits(most=4)), App()
    async with door.serving(app.app):
        idle = [await door.connect() for _ in range(4)]
        for _, writer in idle[1:]:
            writer.write(GET)
        idle[0][1].write(GET[:5])
        for reader, _ in idle[1:]:
            await reader.readuntil(b'"hello"')
        new = [await door.connect() for _ in range(2)]
        for reader, writer in new:
            writer.write(GET)
            assert b"200 OK" in await reader.readuntil(b'"hello"')
        closed = [await reader.read() for reader, _ in idle[:2]]
        assert closed == [b"", b""]  # the oldest
        for _, writer in (*idle, *new):
            writer.close()


async def test_the_request_of_a_client_with_a_key_is_not_ended_for_others() -> None:
    door, app = Door(ConnectionLimits(most=2)), App()
    secret, entry = new_key("acme")
    access = Access(KeyRing([entry]))

    @app.app.get("/key")
    async def key(request: Request) -> str:
        with suppress(Unauthorized):
            access.client(request.headers)
        await app.go.wait()
        return "at last"

    async with door.serving(app.app):
        kept, cut = await door.connect(), await door.connect()
        ask = GET.replace(b"/ ", b"/key ")
        kept[1].write(ask[:-2] + b"authorization: Bearer " + secret.encode() + b"\r\n\r\n")
        cut[1].write(ask)
        await until(lambda: sum(not one.spare for one in door.connections._open.values()) == 1)
        new = await door.connect()
        assert await cut[0].read() == b""
        app.go.set()
        await kept[0].readuntil(b'"at last"')
        for _, writer in (kept, cut, new):
            writer.close()


async def test_the_bytes_of_requests_that_were_not_admitted_are_bounded() -> None:
    door, app = Door(ConnectionLimits(unadmitted_bytes=4 << 20)), App()
    head = b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 60_000
    async with door.serving(app.app):
        held = []
        for number in range(1, 9):
            held.append(await door.connect())
            held[-1][1].write(head)
            await until(lambda number=number: door.connections.held.total >= number * len(head))
        reader, writer = await door.connect()
        writer.write(head)
        status, message = error_of(await reader.readuntil(b"}}"))
        assert (status, "may have 524288 bytes together" in message) == (429, True)
        held.pop()[1].write(b"\r\n\r\n")
        await until(lambda: door.connections.held.total == 7 * len(head))
        for _, each in (*held, (reader, writer)):
            each.close()


async def test_refused_connections_are_closed_whether_they_ask_or_not() -> None:
    door, app = Door(ConnectionLimits(per_address=1)), App()
    async with door.serving(app.app):
        held = [await door.connect() for _ in range(200)]
        await until(lambda: len(door.connections) <= 65)  # some may wait for the error message
        door.after(1.1)
        await until(lambda: len(door.connections) <= 1)
        for _, writer in held:
            writer.close()


async def test_connections_of_a_trusted_proxy_are_not_counted_by_address() -> None:
    limits = ConnectionLimits(per_address=1, trusted_proxies=(ip_network("127.0.0.0/8"),))
    door, app = Door(limits), App()
    async with door.serving(app.app):
        held = [await door.connect() for _ in range(5)]
        for reader, writer in held:
            writer.write(GET)
            assert b"200 OK" in await reader.readuntil(b'"hello"')
            writer.close()


async def test_requests_without_a_key_beyond_their_rate_are_read_later() -> None:
    door, app = Door(ConnectionLimits(per_second=1.0)), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        await connected(door, 1)
        (connection,) = door.connections._open
        assert isinstance(connection, HttpProtocol)
        writer.write(GET * 3)  # in one piece, which is read as a whole
        for _ in range(3):
            await reader.readuntil(b'"hello"')
        writer.write(GET)
        await until(lambda: bool(connection._unfed))
        assert connection.flow.held and connection._turn is not None
        assert app.answered == 3
        door.clock.now += 1.0  # the timer has real time
        await reader.readuntil(b'"hello"')
        writer.close()


async def test_an_idle_connection_keeps_nothing_of_its_last_request() -> None:
    """An answered request is as large as the connection itself, and clients have many."""
    door, app = Door(LIMITS), App()
    async with door.serving(app.app):
        reader, writer = await door.connect()
        await connected(door, 1)
        (connection,) = door.connections._open
        assert isinstance(connection, HttpProtocol)
        writer.write(GET)
        await reader.readuntil(b'"hello"')
        await until(lambda: not connection._is_answering)
        kept = (connection.cycle, connection.scope, connection.timeout_keep_alive_task)
        assert kept == (None, None, None)
        writer.close()


@pytest.mark.parametrize("proxies", [(), ("127.0.0.0/8",)])
async def test_requests_a_second_are_limited_for_each_address(proxies: tuple[str, ...]) -> None:
    clock, app, door = Clock(), App(), Door(LIMITS)
    limited = HandshakeLimit(app.app, NetworkRates(1.0, "requests", clock))
    options = {"proxy_headers": bool(proxies), "forwarded_allow_ips": list(proxies)}
    async with door.serving(limited, **options), httpx.AsyncClient(timeout=60) as client:

        async def status(path: str = "", address: str = "10.0.0.1") -> int:
            url = f"http://127.0.0.1:{door.port}/{path}"
            answer = await client.get(url, headers={"x-forwarded-for": address})
            if answer.status_code == 429:
                assert (
                    answer.json()["error"]["message"]
                    == "rate limit exceeded: 1 requests per second"
                )
                assert answer.headers["retry-after"] == "1"
            return answer.status_code

        assert [await status() for _ in range(4)] == [200, 200, 429, 429]
        # Only a trusted proxy may state its client's address.
        assert await status(address="10.0.0.2") == (200 if proxies else 429)
        assert await status("live") == 200
        clock.now += 1.0
        assert [await status() for _ in range(2)] == [200, 429]
