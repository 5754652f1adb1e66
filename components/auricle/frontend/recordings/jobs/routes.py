"""The routes of `/v1/audio/jobs`, except the submission, which is a route for recordings."""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from msgspec import Meta
from starlette.types import Receive, Scope, Send

from auricle.core.aio import in_thread
from auricle.core.errors import JobFailed, JobNotDone, NoJobs
from auricle.core.limits import check, query_fields
from auricle.frontend.recordings.jobs.queue import JOBS, JobQueue
from auricle.frontend.recordings.jobs.runner import JobRunner
from auricle.frontend.recordings.jobs.store import StoredAnswer, StoredJob, gone
from auricle.frontend.recordings.requests import RecordingEndpoint, RecordingRequests
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import host_of
from auricle.frontend.transport.options import SWITCHES, read, text
from auricle.frontend.transport.request_errors import query_string

_ID = 64  # characters
_PIECE_BYTES = 256 * 1024
TRANSCRIPTIONS = "/v1/audio/transcriptions"


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the list: `after` is the last job of the page before."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: Annotated[str, text(_ID)] | None = None


class SubmittedTranscriptions:
    """`POST /v1/audio/jobs`: a transcription that prefers to be answered later, as ASGI app."""

    def __init__(self, requests: RecordingRequests, endpoint: RecordingEndpoint) -> None:
        self._requests = requests
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, "path": TRANSCRIPTIONS}
        await self._requests.serve_later(self._endpoint, scope, receive, send)


class JobRoutes:
    """Status, answers and removal of jobs.

    Without a queue and a runner every answer names the setting that the server lacks.
    """

    def __init__(self, access: Access, queue: JobQueue | None, runner: JobRunner | None) -> None:
        self._access = access
        self._queue = queue
        self._runner = runner

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to the application."""
        self._add_list(app)
        self._add_one(app)

    def _add_list(self, app: FastAPI) -> None:
        options = [
            _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 100}),
            _parameter("after", "query", {"type": "string", "maxLength": _ID}),
        ]

        @app.get(
            JOBS, tags=["jobs"], responses=_answers(400), openapi_extra={"parameters": options}
        )
        async def list_jobs(request: Request) -> Response:
            """The client's jobs, the newest first: `data`, and `has_more` after the last of it."""
            client, queue = self._client(request)
            wanted = read(JobList, query_fields(query_string(request)), switches=SWITCHES)
            owner = client.fairness_key(host_of(request.scope.get("client")))
            jobs = await queue.call(
                queue.store.page, client.tenant, owner, wanted.limit + 1, wanted.after
            )
            shown = jobs[: wanted.limit]
            return JSONResponse(
                {
                    "object": "list",
                    "data": [queue.document(job) for job in shown],
                    "has_more": len(jobs) > len(shown),
                }
            )

    def _add_one(self, app: FastAPI) -> None:
        path = JOBS + "/{job}"

        @app.get(path, tags=["jobs"], responses=_answers(404))
        async def get_job(job: str, request: Request) -> Response:
            """One job: `queued`, `running`, `done` or `failed`."""
            client, queue = self._client(request)
            return JSONResponse(queue.document(await _found(queue, job, client)))

        @app.get(f"{path}/result", tags=["jobs"], responses=_answers(404, 409))
        async def get_job_result(job: str, request: Request) -> Response:
            """The stored answer, with the status, the headers and the body of the endpoint's."""
            client, queue = self._client(request)
            found = await _found(queue, job, client)
            if not found.ended:
                raise JobNotDone(f"the job is {found.state}; its answer follows when it is done")
            if found.status is None:
                raise JobFailed(f"the job failed without an answer: {found.error}")
            answer, body = await queue.call(queue.store.answer, found)
            return _Stored(answer, body)

        @app.delete(path, tags=["jobs"], status_code=204, responses=_answers(404))
        async def delete_job(job: str, request: Request) -> Response:
            """Remove a job with its recording and its answer; it is cancelled if it runs."""
            client, queue = self._client(request)
            check("job", job, _ID)
            if not await queue.call(queue.store.remove, job, client.tenant):
                raise gone()
            if self._runner is not None:
                self._runner.cancel(job)
            return Response(status_code=204)

    def _client(self, request: Request) -> tuple[ClientAccount, JobQueue]:
        client = self._access.client(request.headers, "recordings")
        if self._queue is None:
            raise NoJobs
        return client, self._queue


async def _found(queue: JobQueue, job: str, client: ClientAccount) -> StoredJob:
    """Return a client's job. Raises UnknownJob."""
    check("job", job, _ID)
    found = await queue.call(queue.store.find, job, client.tenant)
    if found is None:
        raise gone()
    return found


class _Stored(Response):
    """A stored answer, which is read from disk piece by piece; it closes the descriptor."""

    def __init__(self, answer: StoredAnswer, body: int) -> None:
        super().__init__()
        self._answer = answer
        self._body = body

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            start = {"status": self._answer.status, "headers": [*self._answer.headers]}
            await send({"type": "http.response.start", **start})
            while data := await in_thread(os.read, self._body, _PIECE_BYTES):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await in_thread(os.close, self._body)


# The OpenAPI description of routes for recordings, which also make jobs.

_PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`respond-async`: answer with a job, if this server runs jobs",
    "schema": {"type": "string"},
}
_ACCEPTED = {
    "202": {
        "description": "the job; its address is in Location",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


def now_or_later(openapi: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a route whose clients may prefer a job."""
    parameters = [*openapi.get("parameters", ()), _PREFER]
    return {**openapi, "parameters": parameters, "responses": openapi["responses"] | _ACCEPTED}


def later(openapi: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a route that answers with a job only."""
    refusals = {status: what for status, what in openapi["responses"].items() if status != "200"}
    return {**openapi, "responses": _ACCEPTED | refusals}


_SAID = {
    400: "an option cannot be used",
    404: "no such job, or this server runs no jobs",
    409: "the job has not ended, or has failed without an answer",
}


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "schema": schema}


def _answers(*more: int) -> dict[int | str, dict[str, Any]]:
    refusals = {401: "no or unknown API key", 403: "the key is off, or not for recordings"}
    said = refusals | {404: _SAID[404]} | {status: _SAID[status] for status in more}
    return {status: {"description": text} for status, text in said.items()}
