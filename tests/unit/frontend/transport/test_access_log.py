"""With `Frontend.access_log`, each request is logged in one line, with the id from its answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
import websockets
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.access_log import AccessLog, identified
from auricle.process.logs import Repeats
from tests.fakes.front import START, Front, last_words

pytestmark = pytest.mark.unit
FIELDS = ("method", "path", "status", "tenant")


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.endswith("access_log")]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    found = [record.__dict__ for record in records(caplog)]
    return [tuple(line[name] for name in FIELDS) for line in found]


async def test_requests_and_sockets_are_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    secret, entry = new_key("acme")
    front = Front([entry], access_log=True)
    front.processors.failure = lambda: RuntimeError("out of order")
    async with asyncio.timeout(60), front.serving():
        await front.get("/v1/models", secret)
        await front.get("/v1/models?api_key=x")
        await front.get("/nothing")
        with pytest.raises(websockets.InvalidStatus):
            async with front.connect("/v1/audio/stream"):
                pass
        async with front.connect("/v1/audio/stream", secret=secret) as socket:
            await socket.send(START)
            await last_words(socket)
    assert lines(caplog) == [
        ("GET", "/v1/models", 200, "acme"),
        ("GET", "/v1/models", 401, None),
        ("GET", "/nothing", 404, None),
        ("GET", "/v1/audio/stream", 401, None),
        ("GET", "/v1/audio/stream", 101, "acme"),
    ]


async def test_there_is_none_without_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.get("/v1/models")
    assert lines(caplog) == []
    assert "x-request-id" not in answer.headers


def client(**options: Any) -> httpx.AsyncClient:
    async def answer(request: Request) -> PlainTextResponse:
        identified(request.query_params.get("tenant", "t"))
        return PlainTextResponse("yes")

    async def fail(_request: Request) -> PlainTextResponse:
        raise RuntimeError("a defect")

    app = Starlette(routes=[Route("/{rest:path}", answer, methods=["GET", "PUT"])])
    app.router.routes.insert(0, Route("/fail", fail))
    ticks = iter([1.0, 1.0125])
    transport = httpx.ASGITransport(AccessLog(app, lambda: next(ticks)), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://h", **options)


@pytest.mark.parametrize("given", ["abc-1.2_X", "0" * 64])
async def test_a_client_finds_its_own_id(given: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with client() as asking:
        answer = await asking.put("/a/b?secret=1", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"] == given
    (record,) = records(caplog)
    assert record.getMessage() == f"PUT /a/b 200 12.5 ms tenant=t request={given}"


@pytest.mark.parametrize("given", ["", "two words", "a\tb", "x" * 65, "ü", "{}"])
async def test_an_id_of_another_form_is_replaced(
    given: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with client() as asking:
        answer = await asking.get("/", headers=[(b"X-Request-Id", given.encode())])
    assert len(answer.headers["x-request-id"]) == 32
    assert lines(caplog) == [("GET", "/", 200, "t")]


async def test_a_failure_is_a_line_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with client() as asking:
        await asking.get("/fail")
    assert ("GET", "/fail", 500, None) in lines(caplog)


async def test_a_client_that_leaves_before_an_answer_has_no_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.Event().wait()

    async def unused(*_: Any) -> Any:
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/\x1b[2J", "headers": []}
    serving = asyncio.create_task(AccessLog(never)(scope, unused, unused))
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert lines(caplog) == [("GET", "/\\x1b[2J", None, None)]


async def test_requests_at_the_same_time_keep_their_tenants_apart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    both = asyncio.Barrier(2)

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        await both.wait()
        identified(scope["path"])
        await both.wait()

    async def unused(*_: Any) -> Any:
        raise AssertionError

    served = AccessLog(app)
    scopes: list[dict[str, Any]] = [
        {"type": "http", "method": "GET", "path": p, "headers": []} for p in ("a", "b")
    ]
    await asyncio.gather(*(served(scope, unused, unused) for scope in scopes))
    assert {(path, tenant) for _, path, _, tenant in lines(caplog)} == {("a", "a"), ("b", "b")}


def test_lines_are_not_summed_up_however_many(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def several() -> None:
        for _ in range(3):
            async with client() as asking:
                await asking.get("/")

    asyncio.run(several())
    repeats = Repeats(lambda _seconds, _call: None, info_lines=1)
    assert [repeats.filter(record) for record in records(caplog)] == [True] * 3
