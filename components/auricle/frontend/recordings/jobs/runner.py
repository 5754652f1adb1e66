"""Runs the jobs of a folder: claims them, replays their requests, and keeps their answers."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from starlette.types import Message, Scope

from auricle.core.aio import cancelled, in_thread
from auricle.core.errors import (
    AuricleError,
    Overloaded,
    PoolMissing,
    RateLimited,
    StorageFull,
    TooLarge,
    UnknownJob,
)
from auricle.frontend.frontend import Frontend
from auricle.frontend.recordings.jobs.queue import JobQueue
from auricle.frontend.recordings.jobs.store import (
    ATTEMPTS,
    JobLease,
    JobState,
    StoredAnswer,
    StoredJob,
)
from auricle.frontend.recordings.requests import (
    Exchange,
    RecordingEndpoint,
    RecordingRequests,
    Started,
)
from auricle.frontend.transport.live_sessions import Record

log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0  # other frontends add jobs, too
_EXPIRE_SECONDS, _SWEEP_SECONDS = 30.0, 600.0
_SHORTEST_PAUSE_SECONDS = 1.0
_BEATS_PER_LEASE = 4
_PIECE_BYTES = 256 * 1024
_MAX_ANSWER_BYTES = 64 << 20
# An upload cannot take longer than its deadline; this much more for a process that hangs.
_SWEEP_MARGIN_SECONDS = 3600.0
# The recording was not tried.
_NO_ATTEMPT = (RateLimited, Overloaded, StorageFull, PoolMissing)


class _Body:
    """A stored body, as an ASGI application receives it."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._left = size

    async def __call__(self) -> Message:
        if self._left == 0:
            await asyncio.Event().wait()  # the client of a job does not leave
        data = await in_thread(os.read, self._descriptor, min(self._left, _PIECE_BYTES))
        if not data:
            raise AuricleError("the body of a job is shorter than it was")
        self._left -= len(data)
        return {"type": "http.request", "body": data, "more_body": self._left > 0}


@dataclass
class _Collected:
    """An answer, as an ASGI application sends it."""

    status: int = 500
    headers: tuple[tuple[bytes, bytes], ...] = ()
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple((bytes(name), bytes(value)) for name, value in message["headers"])
            return
        part = message.get("body", b"")
        self.size += len(part)
        if self.size > _MAX_ANSWER_BYTES:
            raise TooLarge(f"the answer is larger than the {_MAX_ANSWER_BYTES} bytes it may have")
        self.parts.append(part)

    @property
    def answer(self) -> StoredAnswer:
        return StoredAnswer(self.status, self.headers, b"".join(self.parts))


@dataclass
class _Running:
    """A job that this frontend runs."""

    job: StoredJob
    record: Record
    task: asyncio.Task[None]


class JobRunner:
    """Runs jobs on the frontend's event loop, until the frontend drains.

    At most `max_running_jobs` at a time, of one owner at most all but one. A job waits, without
    a place, while its tenant has reached a limit, the server is full, or a pool that it needs is
    missing.
    """

    def __init__(
        self,
        queue: JobQueue,
        requests: RecordingRequests,
        endpoints: Mapping[str, RecordingEndpoint],
        frontend: Frontend,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._store = queue.store
        self._requests = requests
        self._endpoints = endpoints
        self._admission = frontend.admission
        self._metrics = frontend.metrics
        self._clock = clock
        settings = frontend.settings
        self._most = settings.max_running_jobs
        self._most_of_one = max(1, settings.max_running_jobs - 1)
        self._lease_seconds = settings.job_lease_seconds
        self._swept_after = settings.upload_deadline_seconds + _SWEEP_MARGIN_SECONDS
        self._running: dict[str, _Running] = {}  # by lease
        self._seen: dict[JobLease, float] = {}  # since when
        self._paused: dict[str, float] = {}  # owners, until
        self._without: dict[str, frozenset[str]] = {}  # jobs, and the pools that they lacked
        self._all_paused_until = self._beat_at = self._expire_at = self._sweep_at = 0.0

    async def run(self) -> None:
        """Run jobs until draining begins; return those that are not done to the queue."""
        changed = self._queue.changed
        try:
            with self._admission.interrupting(changed.set):
                while not self._admission.draining:
                    changed.clear()
                    try:
                        await self._round()
                    except AuricleError as error:  # the disk cannot be used, or is full
                        log.warning("jobs wait: %s", error)
                        self._all_paused_until = self._clock() + _POLL_SECONDS
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_SECONDS):
                            await changed.wait()
        finally:
            await self._give_back()

    def cancel(self, job: str) -> None:
        """End a job that was removed, if it runs here."""
        for running in self._running.values():
            if running.job.id == job:
                running.task.cancel()

    async def _round(self) -> None:
        now = self._clock()
        if now >= self._beat_at:
            self._beat_at = now + self._lease_seconds / _BEATS_PER_LEASE
            await self._beat()
            await self._take_back()
        if now >= self._expire_at:
            self._expire_at = now + _EXPIRE_SECONDS
            await self._queue.call(self._store.expire)
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_SECONDS
            await self._queue.call(self._store.sweep, self._swept_after)
        await self._claim()
        self._metrics.jobs(*await self._queue.call(self._store.counts))

    async def _beat(self) -> None:
        """Renew the leases of the jobs that run here, and end those that were removed."""
        progress = {one.job: one.record.audio_seconds for one in self._running.values()}
        if not progress:
            return
        renewed = await self._queue.call(self._store.beat, progress)
        for job in progress.keys() - renewed:
            if (running := self._running.get(job.lease)) is not None:
                running.task.cancel()

    async def _take_back(self) -> None:
        """Take back the jobs whose lease was not renewed for `job_lease_seconds`."""
        leases = await self._queue.call(self._store.leases)
        now = self._clock()
        self._seen = {lease: self._seen.get(lease, now) for lease in leases}
        for lease, since in self._seen.items():
            if now - since < self._lease_seconds or lease.lease in self._running:
                continue
            if await self._queue.call(self._store.take_back, lease):
                log.warning("job %s: its frontend has died, or does not answer", lease.id)

    async def _claim(self) -> None:
        while len(self._running) < self._most and self._requests.has_room:
            now = self._clock()
            if now < self._all_paused_until or self._admission.draining:
                return
            if self._admission.pools.awaited:
                return  # an attempt would be refused, and count
            self._paused = {owner: until for owner, until in self._paused.items() if until > now}
            missing = {*self._admission.pools.missing}
            self._without = {job: pools for job, pools in self._without.items() if pools & missing}
            held = Counter(one.job.owner for one in self._running.values())
            full = {owner for owner, number in held.items() if number >= self._most_of_one}
            job = await self._queue.call(
                self._store.claim, {*self._paused, *full}, {*self._without}
            )
            if job is None:
                return
            # No address: otherwise each refused attempt is logged as a refused client.
            record = Record("job", None, "recording")
            log.info("job %s: attempt %d, as %s", job.id, job.attempts, record.name)
            task = asyncio.create_task(self._attempt(job, record), name=job.id)
            self._running[job.lease] = _Running(job, record, task)

    async def _attempt(self, job: StoredJob, record: Record) -> None:
        try:
            await self._run(job, record)
        except UnknownJob:
            log.info("job %s was removed", job.id)
        except Exception:
            # Its lease is not renewed any more, so that a frontend runs it again.
            log.exception("job %s: this attempt failed", job.id)
        finally:
            del self._running[job.lease]
            self._queue.changed.set()

    async def _run(self, job: StoredJob, record: Record) -> None:
        """Replay a job's request; store its answer, or return it to the queue."""
        endpoint, collected = self._endpoints[job.path], _Collected()
        body = await self._queue.call(self._store.open_body, job)
        stored = Exchange(_scope(job), _Body(body, job.size), Started(collected))
        code = message = ""
        try:
            await self._requests.replay(endpoint, record, job, stored)
        except AuricleError as error:
            if self._runs_again(job, error):
                charged = not isinstance(error, _NO_ATTEMPT)
                await self._queue.call(self._store.requeue, job, charged=charged)
                return
            code, message = error.code, error.for_client
            if isinstance(error, TooLarge):  # drop the part that was collected
                collected = _Collected()
                stored = replace(stored, send=Started(collected))
            await endpoint.fail(error, stored.scope, stored.receive, stored.send, record)
        finally:
            await in_thread(os.close, body)
        state: JobState = "failed" if code else "done"
        finish = partial(self._store.finish, job, state, collected.answer, code, message)
        await self._queue.call(finish)

    def _runs_again(self, job: StoredJob, error: AuricleError) -> bool:
        """Whether a job that met this error waits for another attempt, as a client would."""
        if isinstance(error, PoolMissing):
            log.info("job %s waits: %s", job.id, error)
            self._without[job.id] = error.pools
            return True
        until = self._clock() + max(error.retry_after_seconds, _SHORTEST_PAUSE_SECONDS)
        if isinstance(error, RateLimited):
            self._paused[job.owner] = until
            return True
        if error.retryable:
            self._all_paused_until = until
        return isinstance(error, _NO_ATTEMPT) or (error.retryable and job.attempts < ATTEMPTS)

    async def _give_back(self) -> None:
        """End all attempts; return the jobs to the queue, as if they had not been claimed."""
        jobs = [one.job for one in self._running.values()]
        await cancelled([one.task for one in self._running.values()])
        for job in jobs:
            with suppress(AuricleError):  # otherwise its lease expires
                await self._queue.call(self._store.requeue, job)


def _scope(job: StoredJob) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": job.path,
        "root_path": "",
        "query_string": job.query.encode("latin-1"),
        "headers": [
            (b"content-type", job.content_type.encode("latin-1")),
            (b"content-length", str(job.size).encode()),
        ],
        "client": (job.address, 0) if job.address else None,
        "server": None,
    }
