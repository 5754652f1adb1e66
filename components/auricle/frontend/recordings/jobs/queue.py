"""The jobs of a frontend's folder, for its event loop; and the documents that describe them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from auricle.config.settings import FrontendSettings
from auricle.core.aio import in_thread, with_timeout
from auricle.core.errors import BadRequest
from auricle.core.limits import check, query_fields
from auricle.frontend.recordings.jobs.store import (
    JobBody,
    JobLimits,
    JobState,
    JobStore,
    StoredJob,
)
from auricle.frontend.recordings.uploads import CheckSize
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import host_of
from auricle.frontend.transport.request_errors import query_string

JOBS = "/v1/audio/jobs"
_CONTENT_TYPE = 1_024  # characters of the header
_TURN_SECONDS = 30.0  # of waiting for other calls of the store
P = ParamSpec("P")
T = TypeVar("T")


class JobError(msgspec.Struct, frozen=True):
    """Why a job failed: an error's code and message."""

    code: str
    message: str


class JobDocument(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job, as clients see it. Times are seconds since 1970.

    `endpoint` is the path whose answer it will have, with the status `response_status`.
    `processed_seconds` of its audio were transcribed. The job and its answer are removed at
    `expires_at`.
    """

    id: str
    object: str
    status: JobState
    endpoint: str
    bytes: int
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    expires_at: int | None = None
    attempts: int
    processed_seconds: float | None = None
    response_status: int | None = None
    error: JobError | None = None


class JobQueue:
    """The jobs of one folder. Use it on one event loop; threads read and write the disk.

    `changed` is set when a job was added here, or removed.
    """

    def __init__(self, store: JobStore, keep_seconds: float) -> None:
        self.store = store
        self.keep_seconds = keep_seconds
        self.changed = asyncio.Event()
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, settings: FrontendSettings) -> JobQueue | None:
        """Return the jobs of the settings' folder, if there is one.

        Raises SettingsError if it cannot be used.
        """
        if settings.jobs_folder is None:
            return None
        keep = 3600.0 * settings.job_hours
        limits = JobLimits(settings.max_jobs, settings.max_stored_upload_bytes, keep)
        return cls(await in_thread(JobStore, settings.jobs_folder, limits), keep)

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a method of the store. Raises as it does, and DeadlineExceeded."""
        await with_timeout(_TURN_SECONDS, self._turn.acquire(), "the jobs' folder")
        try:
            return await in_thread(partial(work, *args, **kwargs))
        finally:
            self._turn.release()

    async def close(self) -> None:
        await self.call(self.store.close)

    async def read(self, request: Request, _check_size: CheckSize) -> ReceivedBody:
        """Store a request's body; see `Uploads.taken`. Raises BadRequest if it is empty."""
        body = ReceivedBody(await in_thread(self.store.body))
        try:
            async for part in request.stream():
                await in_thread(body.file.write, part)
            if not body.file.size:
                raise BadRequest("the body is empty; send the recording")
        except BaseException:
            await body.close()
            raise
        return body

    async def check_room(self, client: ClientAccount, scope: Scope, check_size: CheckSize) -> None:
        """Raise the errors of `JobStore.check_room` before the client sends a body in vain."""
        length = Request(scope).headers.get("content-length", "")
        owner = client.fairness_key(host_of(scope.get("client")))
        size = int(length) if length.isdigit() else 0
        check_size(size)
        await self.call(self.store.check_room, owner, size)

    async def add(self, client: ClientAccount, scope: Scope, body: ReceivedBody) -> StoredJob:
        """Add a job for a request whose body was stored. Raises as `JobStore.add`."""
        job = job_of(client, scope, body.file.size)
        await self.call(self.store.add, job, body.file)
        self.changed.set()
        return job

    def document(self, job: StoredJob) -> dict[str, Any]:
        """Return a job's `JobDocument`, as JSON has it."""
        error = JobError(job.code, job.error) if job.code else None
        ends = None if job.finished is None else int(job.finished + self.keep_seconds)
        document = JobDocument(
            id=job.id,
            object="audio.job",
            status=job.state,
            endpoint=job.path,
            bytes=job.size,
            created_at=int(job.created),
            started_at=None if job.started is None else int(job.started),
            finished_at=None if job.finished is None else int(job.finished),
            expires_at=ends,
            attempts=job.attempts,
            processed_seconds=round(job.seconds, 1) if job.state == "running" else None,
            response_status=job.status,
            error=error,
        )
        found: dict[str, Any] = msgspec.to_builtins(document)
        return found


class ReceivedBody:
    """A body that `JobQueue.read` has stored; `close` removes it unless it is a job's."""

    def __init__(self, file: JobBody) -> None:
        self.file = file

    async def close(self) -> None:
        await in_thread(self.file.close)


def job_of(client: ClientAccount, scope: Scope, size: int) -> StoredJob:
    """Return a new job. Raises BadRequest if its query or Content-Type is too long."""
    request = Request(scope)
    query, kind = query_string(request), request.headers.get("content-type", "")
    query_fields(query)
    check("Content-Type", kind, _CONTENT_TYPE)
    host = scope.get("client")
    return StoredJob(
        id=f"job_{secrets.token_hex(16)}",
        tenant=client.tenant,
        owner=client.fairness_key(host_of(host)),
        address=host[0] if host else "",
        path=scope["path"],
        query=query,
        content_type=kind,
        size=size,
        created=time.time(),
    )
