"""The routes of `/v1/operations`, for keys with the scope `operations`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import Response

from auricle.findings.rules import findings
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.front_door import FrontDoor
from auricle.frontend.operations.documents import Examination, Operations, StreamEnd
from auricle.frontend.operations.event_stream import EventStream
from auricle.frontend.operations.observatory import EVERY_SECONDS, Observatory
from auricle.messages.diagnosis import Diagnosis
from auricle.text_bounds import check as check_text

_SCOPE = "operations"
_NAME = 128  # characters of a session's name
_SCHEMAS = "#/components/schemas/"
Schema = dict[str, Any]


@dataclass(frozen=True)
class OperationsRoutes:
    """What the routes need. `diagnose` probes all workers, or raises RateLimited."""

    access: Access
    front_door: FrontDoor
    observatory: Observatory
    diagnose: Callable[[], Awaitable[Diagnosis]]
    every_seconds: float = EVERY_SECONDS  # between two documents of a stream

    def add_to(self, app: FastAPI) -> FastAPI:
        """Add the routes to the application, and return it."""
        self._add_documents(app)
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
            return _json(await self.observatory.now(session))

        streamed = _answers("text/event-stream", "Operations", "too many pages are open")

        @app.get("/v1/operations/events", tags=[_SCOPE], responses=streamed)
        async def events(request: Request, session: str | None = None) -> Response:
            """The same every 2 s, as server-sent events `operations`; the last one is `end`."""

            def check() -> None:
                self.access.client(request.headers, "operations")

            check()
            check_text("session", session, _NAME)
            return EventStream(
                self.observatory, self.front_door, check, session, self.every_seconds
            )

    def _add_examination(self, app: FastAPI) -> None:
        answers = _answers("application/json", "Examination", "another diagnosis is being made")

        @app.get("/v1/operations/examination", tags=[_SCOPE], responses=answers)
        async def examination(request: Request) -> Response:
            """What `auricle doctor` says, with a probe of every worker; takes up to a minute."""
            self.access.client(request.headers, "operations")
            found = await self.diagnose()
            told = tuple(findings(found))
            wrong = sum(one.wrong for one in told)
            return _json(Examination(found.at, found.seconds, len(found.probes), wrong, told))


def schemas() -> dict[str, Schema]:
    """Return the JSON Schemas of the documents and all their parts, by name."""
    kinds = (Operations, Examination, StreamEnd)
    found = msgspec.json.schema_components(kinds, ref_template=_SCHEMAS + "{name}")[1]
    return {name: schema | {"description": _described(schema)} for name, schema in found.items()}


def _described(schema: Schema) -> str:
    return inspect.cleandoc(schema["description"]).replace("None", "null")


def _json(document: msgspec.Struct) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(document), headers=headers, media_type="application/json")


def _answers(media_type: str, kind: str, full: str) -> dict[int | str, dict[str, Any]]:
    schema = {"$ref": _SCHEMAS + kind}
    return {
        200: {"description": f"`{kind}`", "content": {media_type: {"schema": schema}}},
        400: {"description": "a parameter is wrong"},
        401: {"description": "no or unknown API key"},
        403: {"description": "the key is off, or not for operations"},
        429: {"description": full},
    }


def _add_schemas(app: FastAPI) -> None:
    """Have the OpenAPI document describe our documents, which are no models of pydantic."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas())
        return document

    app.openapi = openapi  # type: ignore[method-assign]
