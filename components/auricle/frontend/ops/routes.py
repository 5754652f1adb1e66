"""The routes of `/v1/operations`, for keys with the scope `operations`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from auricle.core.aio import first_failure_or
from auricle.core.errors import AuricleError
from auricle.core.limits import check as check_text
from auricle.frontend.ops.dashboard import EVERY_SECONDS, Dashboard
from auricle.frontend.ops.documents import Examination, Operations, OperationsHistory, StreamEnd
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.ops.checks import findings
from auricle.protocol.diagnosis import Diagnosis

# Server-sent events: the document again and again, until the client or the frontend goes.

_GOING = StreamEnd("going_away", "this server is shutting down; connect again")


class EventStream(Response):
    """One client's stream.

    Nothing is queued: the next document is made when the last one was taken, so one who reads
    slowly gets fewer, and one who does not read is cut like any other client.
    """

    def __init__(
        self,
        dashboard: Dashboard,
        admission: SessionAdmission,
        check: Callable[[], None],
        session: str | None,
        every_seconds: float,
    ) -> None:
        """`check` raises once the client's key may no longer be used; `session` is the chosen."""
        super().__init__()
        self._dashboard = dashboard
        self._admission = admission
        self._check = check
        self._session = session
        self._every_seconds = every_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as an ASGI application. Raises RateLimited if too many look."""
        with self._dashboard.viewer(), suppress(ClientDisconnected):
            sending = asyncio.create_task(self._send(send))
            await first_failure_or(sending, [asyncio.create_task(_gone(receive))])

    async def _send(self, send: Send) -> None:
        fields = {"content-type": "text/event-stream", "cache-control": "no-store"}
        headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._events()) as events:
            async for data in events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self) -> AsyncGenerator[bytes, None]:
        woken = asyncio.Event()
        try:
            with self._admission.interrupting(woken.set):
                while not self._admission.draining:
                    self._check()
                    yield _event("operations", await self._dashboard.now(self._session))
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._every_seconds):
                            await woken.wait()
        except AuricleError as error:
            yield _event("end", StreamEnd(error.code, error.for_client))
        else:
            yield _event("end", _GOING)


def _event(name: str, data: msgspec.Struct) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnected


_SCOPE = "operations"
_NAME = 128  # characters of a session's name
_SCHEMAS = "#/components/schemas/"
Schema = dict[str, Any]


@dataclass(frozen=True)
class OperationsRoutes:
    """The dependencies of the routes. `diagnose` probes all workers, or raises RateLimited.
    `history` returns the last hour."""

    access: Access
    admission: SessionAdmission
    dashboard: Dashboard
    diagnose: Callable[[], Awaitable[Diagnosis]]
    history: Callable[[], OperationsHistory]
    every_seconds: float = EVERY_SECONDS  # between two documents of a stream

    def add_to(self, app: FastAPI) -> FastAPI:
        """Add the routes to the application, and return it."""
        self._add_documents(app)
        self._add_history(app)
        self._add_examination(app)
        _add_schemas(app)
        return app

    def _add_documents(self, app: FastAPI) -> None:
        answers = _answers("application/json", "Operations", "too many sessions are looked at")

        @app.get("/v1/operations", tags=[_SCOPE], responses=answers)
        async def operations(request: Request, session: str | None = None) -> Response:
            """Pools, workers, sessions, the planner's decisions and health, as they are now.

            `session` names one whose steps are wanted.
            """
            self.access.client(request.headers, "operations")
            check_text("session", session, _NAME)
            return _json(await self.dashboard.now(session))

        streamed = _answers("text/event-stream", "Operations", "too many pages are open")

        @app.get("/v1/operations/events", tags=[_SCOPE], responses=streamed)
        async def events(request: Request, session: str | None = None) -> Response:
            """The same every 2 s, as server-sent events `operations`; the last one is `end`."""

            def check() -> None:
                self.access.client(request.headers, "operations")

            check()
            check_text("session", session, _NAME)
            return EventStream(self.dashboard, self.admission, check, session, self.every_seconds)

    def _add_history(self, app: FastAPI) -> None:
        answers = _answers("application/json", "OperationsHistory")

        @app.get("/v1/operations/history", tags=[_SCOPE], responses=answers)
        async def history(request: Request) -> Response:
            """The processors' load over the last hour, from their load reports."""
            self.access.client(request.headers, "operations")
            return _json(self.history())

    def _add_examination(self, app: FastAPI) -> None:
        answers = _answers("application/json", "Examination", "another diagnosis is being made")

        @app.get("/v1/operations/examination", tags=[_SCOPE], responses=answers)
        async def examination(request: Request) -> Response:
            """Findings of `auricle doctor`, with a probe of every worker; takes up to a minute."""
            self.access.client(request.headers, "operations")
            found = await self.diagnose()
            answered = tuple(findings(found))
            wrong = sum(one.wrong for one in answered)
            return _json(Examination(found.at, found.seconds, len(found.probes), wrong, answered))


def schemas() -> dict[str, Schema]:
    """Return the JSON Schemas of the documents and all their parts, by name."""
    kinds = (Operations, OperationsHistory, Examination, StreamEnd)
    found = msgspec.json.schema_components(kinds, ref_template=_SCHEMAS + "{name}")[1]
    return {name: schema | {"description": _described(schema)} for name, schema in found.items()}


def _described(schema: Schema) -> str:
    return inspect.cleandoc(schema["description"]).replace("None", "null")


def _json(document: msgspec.Struct) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(document), headers=headers, media_type="application/json")


def _answers(media_type: str, kind: str, full: str = "") -> dict[int | str, dict[str, Any]]:
    schema = {"$ref": _SCHEMAS + kind}
    return {
        200: {"description": f"`{kind}`", "content": {media_type: {"schema": schema}}},
        400: {"description": "a parameter is wrong"},
        401: {"description": "no or unknown API key"},
        403: {"description": "the key is off, or not for operations"},
        **({429: {"description": full}} if full else {}),
    }


def _add_schemas(app: FastAPI) -> None:
    """Add our documents, which are not pydantic models, to the OpenAPI document."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas())
        return document

    app.openapi = openapi  # type: ignore[method-assign]
