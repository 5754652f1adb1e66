"""The jobs of a folder: an SQLite database, and one file for each body and each answer.

Several frontends may share the folder. SQLite makes each change visible as a whole or not at all,
whichever process dies meanwhile. A body is complete before its job exists, and an answer before
its job ends, so no reader meets half a file. Files without a job, of a process that died, are
removed by `sweep`.

A running job has a lease, a random word. Its frontend counts `beat` up; another frontend for
whom the count has not changed for some time takes the job back. So no clocks are compared, and the
answer of a frontend that was only slow is refused, because the lease has changed.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from auricle.core.errors import (
    Overloaded,
    RateLimited,
    SettingsError,
    StorageFull,
    UnknownJob,
)
from auricle.process.logs import at_most

log = logging.getLogger(__name__)

JobState = Literal["queued", "running", "done", "failed"]
STATES: tuple[JobState, ...] = ("queued", "running", "done", "failed")
ATTEMPTS = 3  # of a job whose frontend dies, or which fails for a passing reason
_DATABASE = "jobs.sqlite"
_VERSION = 1
_BUSY_SECONDS = 5.0
_FULL_RETRY_SECONDS = 60.0
_TURNS_KEPT = 1_000  # of clients without a job
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    address TEXT NOT NULL,
    path TEXT NOT NULL,
    query TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    created REAL NOT NULL,
    started REAL,
    finished REAL,
    attempts INTEGER NOT NULL DEFAULT 0,
    lease TEXT NOT NULL DEFAULT '',
    beat INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    status INTEGER,
    headers BLOB,
    code TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
);
CREATE INDEX jobs_by_state ON jobs (state, owner, seq);
CREATE INDEX jobs_by_owner ON jobs (owner, tenant, seq);
CREATE TABLE turns (owner TEXT PRIMARY KEY, turn INTEGER NOT NULL);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
# The longest waiting job of the client that has the fewest running, and of several such clients
# of the one whose last turn was the longest ago.
_NEXT = """
SELECT waiting.seq FROM
    (SELECT owner, min(seq) AS seq FROM jobs WHERE state = 'queued'
        AND owner NOT IN (SELECT value FROM json_each(?))
        AND id NOT IN (SELECT value FROM json_each(?)) GROUP BY owner) AS waiting
    LEFT JOIN turns USING (owner)
    LEFT JOIN (SELECT owner, count(*) AS running FROM jobs WHERE state = 'running' GROUP BY owner)
        USING (owner)
ORDER BY ifnull(running, 0), ifnull(turn, 0), waiting.seq LIMIT 1
"""


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job. Times are seconds since the epoch; `seconds` of its audio were processed.

    `owner` is the client for whom it counts: the tenant, or without keys the address. `status` is
    the status of its answer, if it has one; `code` and `error` are of a failed job.
    """

    id: str
    tenant: str
    owner: str
    address: str
    path: str
    query: str
    content_type: str
    size: int
    state: JobState = "queued"
    created: float
    started: float | None = None
    finished: float | None = None
    attempts: int = 0
    lease: str = ""
    seconds: float = 0.0
    status: int | None = None
    code: str = ""
    error: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed")


_FIELDS = ", ".join(StoredJob.__struct_fields__)


def gone() -> UnknownJob:
    return UnknownJob("this job does not exist; it may have expired, or was removed")


class StoredAnswer(msgspec.Struct, frozen=True):
    """An HTTP answer: its status, its headers and its body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""


class JobLease(msgspec.Struct, frozen=True):
    """A running job's lease, at one moment."""

    id: str
    lease: str
    beat: int


@dataclass(frozen=True)
class JobLimits:
    """Limits of the folder: its `jobs` and its `bytes`. One owner may have half of each.

    For `keep_seconds` see `JobStore.expire`.
    """

    jobs: int
    bytes: int
    keep_seconds: float


class JobStore:
    """The jobs of one folder. All calls block; make them in one thread at a time.

    All raise StorageFull if the disk is full, and Overloaded if the database cannot be used.
    """

    def __init__(
        self, folder: Path, limits: JobLimits, clock: Callable[[], float] = time.time
    ) -> None:
        """Raises SettingsError if the folder cannot be used."""
        self._limits = limits
        self._clock = clock
        self._folder = folder
        self._bodies, self._answers = folder / "bodies", folder / "answers"
        try:
            for one in (folder, self._bodies, self._answers):
                one.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileExistsError):  # SQLite's own file would be readable by others
                os.close(os.open(folder / _DATABASE, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._db = self._opened()
        except OSError as error:
            raise SettingsError(
                f"Frontend.jobs_folder: {folder} cannot be used: {error.strerror}"
            ) from None
        except sqlite3.Error as error:
            raise SettingsError(
                f"Frontend.jobs_folder: {folder / _DATABASE} cannot be used: {error}; "
                "if it is damaged, move the folder's content away"
            ) from None

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._folder / _DATABASE,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        # Not a write-ahead log, which needs memory that all processes share.
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = EXTRA")  # durable before `COMMIT` returns
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            with suppress(sqlite3.OperationalError):  # another frontend was first
                db.executescript(_SCHEMA)
            if db.in_transaction:
                db.execute("ROLLBACK")
            version = db.execute("PRAGMA user_version").fetchone()[0]
        if version != _VERSION:
            raise sqlite3.DatabaseError(f"it has version {version}, not {_VERSION}")
        return db

    def close(self) -> None:
        self._db.close()

    # Submission.

    def body(self) -> JobBody:
        """Return a new, empty body on disk."""
        with using_disk(self._folder):
            return JobBody(self._bodies)

    def check_room(self, owner: str, size: int) -> None:
        """Raise RateLimited if one more job of `owner` with `size` bytes would be too much, and
        Overloaded or StorageFull if it would be for all clients."""
        count = "SELECT count(*), ifnull(sum(stored), 0) FROM jobs"
        with using_disk(self._folder):
            jobs, stored = self._db.execute(count).fetchone()
            own, own_stored = self._db.execute(f"{count} WHERE owner = ?", (owner,)).fetchone()
        limits = self._limits
        if own >= (most := limits.jobs // 2):
            raise RateLimited(
                f"you have {own} jobs here, at most {most} are kept; delete some "
                "(DELETE /v1/audio/jobs/ID)",
                _FULL_RETRY_SECONDS,
            )
        if own_stored + size > (share := limits.bytes // 2):
            raise RateLimited(
                f"your jobs would have {own_stored + size} bytes together, at most {share} are "
                "allowed; wait for some, or delete some (DELETE /v1/audio/jobs/ID)",
                _FULL_RETRY_SECONDS,
            )
        if jobs >= limits.jobs:
            raise Overloaded(
                f"the server has {limits.jobs} jobs; try again later", _FULL_RETRY_SECONDS
            )
        if stored + size > limits.bytes:
            raise StorageFull("the server has no room for the job; try again later")

    def add(self, job: StoredJob, body: JobBody) -> None:
        """Add a job with its body, which the store owns from now on. Raises as `check_room`."""
        fields = ("id", "tenant", "owner", "address", "path", "query", "content_type", "size")
        values = [getattr(job, name) for name in (*fields, "created")]
        with using_disk(self._folder):
            body.sync()
        with self._changing():
            self.check_room(job.owner, job.size)
            self._db.execute(
                f"INSERT INTO jobs ({', '.join(fields)}, created, stored) "
                f"VALUES ({', '.join('?' * 10)})",
                (*values, job.size),
            )
            body.keep(job.id)
        # Only now, because the transaction may fail at its end.
        body.kept = True

    # What clients see.

    def find(self, job: str, tenant: str) -> StoredJob | None:
        """Return a tenant's job."""
        return next(self._jobs("WHERE id = ? AND tenant = ?", job, tenant), None)

    def page(
        self, tenant: str, owner: str, limit: int, after: str | None = None
    ) -> Sequence[StoredJob]:
        """Return the owner's newest jobs, or the next ones `after` one of them. At most `limit`."""
        where, values = "WHERE owner = ? AND tenant = ?", [owner, tenant]
        if after is not None:
            where += f" AND seq < (SELECT seq FROM jobs {where} AND id = ?)"
            values += [owner, tenant, after]
        return [*self._jobs(f"{where} ORDER BY seq DESC LIMIT ?", *values, limit)]

    def remove(self, job: str, tenant: str) -> bool:
        """Remove a tenant's job, in whatever state; return whether it existed."""
        with self._changing():
            found = self.find(job, tenant)
            self._db.execute("DELETE FROM jobs WHERE id = ? AND tenant = ?", (job, tenant))
        if found is not None:
            self._unlink(found)
        return found is not None

    def answer(self, job: StoredJob) -> tuple[StoredAnswer, int]:
        """Return the answer of a job that has one, without its body, and a descriptor of the body.

        Raises UnknownJob if the job was removed.
        """
        with using_disk(self._folder):
            found = self._db.execute("SELECT headers FROM jobs WHERE id = ?", (job.id,)).fetchone()
        if found is None or found[0] is None or job.status is None:
            raise gone()
        headers = msgspec.msgpack.decode(found[0], type=tuple[tuple[bytes, bytes], ...])
        return StoredAnswer(job.status, headers), self._descriptor(self._answer_path(job))

    # Running.

    def claim(self, owners: Collection[str] = (), jobs: Collection[str] = ()) -> StoredJob | None:
        """Return the next job, which is running from now on.

        Jobs of `owners` are skipped, and so are jobs with the ids `jobs`.
        """
        passed_over = [msgspec.json.encode(list(some)).decode() for some in (owners, jobs)]
        if not self._any_queued():  # without taking the write lock at each call
            return None
        with self._changing():
            found = self._db.execute(_NEXT, passed_over).fetchone()
            if found is None:
                return None
            lease = secrets.token_hex(8)
            self._db.execute(
                "UPDATE jobs SET state = 'running', lease = ?, beat = 0, seconds = 0, started = ?, "
                "attempts = attempts + 1 WHERE seq = ?",
                (lease, self._clock(), found[0]),
            )
            (job,) = self._jobs("WHERE seq = ?", found[0])
            self._db.execute(
                "INSERT OR REPLACE INTO turns SELECT ?, 1 + ifnull(max(turn), 0) FROM turns",
                (job.owner,),
            )
            return job

    def _any_queued(self) -> bool:
        with using_disk(self._folder):
            found = self._db.execute("SELECT 1 FROM jobs WHERE state = 'queued' LIMIT 1")
            return found.fetchone() is not None

    def open_body(self, job: StoredJob) -> int:
        """Return a descriptor of a job's body. Raises UnknownJob if the job was removed."""
        return self._descriptor(self._bodies / job.id)

    def beat(self, progress: Mapping[StoredJob, float]) -> set[StoredJob]:
        """Renew the leases of jobs, and set the seconds of their audio that were processed.

        Returns the jobs that still have their lease.
        """
        renewed = set()
        with self._changing():
            for job, seconds in progress.items():
                done = self._db.execute(
                    "UPDATE jobs SET beat = beat + 1, seconds = ? "
                    "WHERE id = ? AND lease = ? AND state = 'running'",
                    (seconds, job.id, job.lease),
                )
                if done.rowcount:
                    renewed.add(job)
        return renewed

    def leases(self) -> Sequence[JobLease]:
        """Return the leases of all running jobs, of all frontends."""
        with using_disk(self._folder):
            found = self._db.execute("SELECT id, lease, beat FROM jobs WHERE state = 'running'")
            return [JobLease(*row) for row in found]

    def requeue(self, job: StoredJob, *, charged: bool = False) -> None:
        """Return a running job to the queue; if it is `charged`, this attempt counts."""
        with self._changing():
            self._db.execute(
                "UPDATE jobs SET state = 'queued', lease = '', attempts = attempts - ? "
                "WHERE id = ? AND lease = ? AND state = 'running'",
                (0 if charged else 1, job.id, job.lease),
            )

    def take_back(self, lost: JobLease) -> bool:
        """Return a job whose frontend has died to the queue, or end it after its last attempt.

        Returns whether that was done: not if the frontend has given a sign of life.
        """
        with self._changing():
            same = self._jobs(
                "WHERE id = ? AND lease = ? AND beat = ? AND state = 'running'",
                *(lost.id, lost.lease, lost.beat),
            )
            job = next(same, None)
            if job is None:
                return False
            if job.attempts < ATTEMPTS:
                self._db.execute(
                    "UPDATE jobs SET state = 'queued', lease = '' WHERE id = ?", (job.id,)
                )
                return True
            self._end_unanswered(
                job,
                "interrupted",
                f"the server was interrupted in each of {ATTEMPTS} attempts; send the recording "
                "again",
            )
        self._unlink(job)
        return True

    def finish(
        self, job: StoredJob, state: JobState, answer: StoredAnswer, code: str, error: str
    ) -> bool:
        """End a running job with its answer. Returns whether the job still had this lease."""
        path = self._answer_path(job)
        with using_disk(self._folder):
            _write(path, answer.body)
        with self._changing():
            done = self._db.execute(
                "UPDATE jobs SET state = ?, finished = ?, status = ?, headers = ?, stored = ?, "
                "code = ?, error = ? WHERE id = ? AND lease = ? AND state = 'running'",
                (
                    *(state, self._clock(), answer.status),
                    *(msgspec.msgpack.encode(answer.headers), len(answer.body), code, error),
                    *(job.id, job.lease),
                ),
            )
        with using_disk(self._folder), suppress(FileNotFoundError):
            (self._bodies / job.id if done.rowcount else path).unlink()
        return bool(done.rowcount)

    def _end_unanswered(self, job: StoredJob, code: str, error: str) -> None:
        self._db.execute(
            "UPDATE jobs SET state = 'failed', finished = ?, stored = 0, code = ?, error = ? "
            "WHERE id = ?",
            (self._clock(), code, error, job.id),
        )

    # Upkeep.

    def expire(self) -> int:
        """Remove jobs that ended `keep_seconds` ago, and end those that have waited as long.

        Returns how many were removed.
        """
        before = self._clock() - self._limits.keep_seconds
        with self._changing():
            old = [*self._jobs("WHERE state IN ('done', 'failed') AND finished < ?", before)]
            late = [*self._jobs("WHERE state = 'queued' AND created < ?", before)]
            self._db.executemany("DELETE FROM jobs WHERE id = ?", [(job.id,) for job in old])
            for job in late:
                hours = self._limits.keep_seconds / 3600
                self._end_unanswered(
                    job, "expired", f"the server had no time for this job within {hours:g} hours"
                )
            self._db.execute(
                "DELETE FROM turns WHERE owner NOT IN (SELECT owner FROM jobs) "
                "AND turn < (SELECT max(turn) FROM turns) - ?",
                (_TURNS_KEPT,),
            )
        for job in (*old, *late):
            self._unlink(job)
        return len(old)

    def sweep(self, older_than_seconds: float) -> int:
        """Remove files without a job, if older; return how many. A younger one may get its job."""
        with using_disk(self._folder):
            bodies = self._db.execute("SELECT id FROM jobs WHERE state IN ('queued', 'running')")
            needed = {self._bodies / name for (name,) in bodies}
            needed |= {self._answer_path(job) for job in self._jobs("WHERE status NOTNULL")}
            before, removed = self._clock() - older_than_seconds, 0
            for file in (*self._bodies.iterdir(), *self._answers.iterdir()):
                with suppress(FileNotFoundError):
                    if file not in needed and file.stat().st_mtime < before:
                        file.unlink()
                        removed += 1
        return removed

    def counts(self) -> tuple[Mapping[str, int], float]:
        """Return the number of jobs by state, and for how many seconds the oldest has waited."""
        with using_disk(self._folder):
            found = dict(self._db.execute("SELECT state, count(*) FROM jobs GROUP BY state"))
            oldest = "SELECT min(created) FROM jobs WHERE state = 'queued'"
            since = self._db.execute(oldest).fetchone()[0]
        waited = 0.0 if since is None else max(0.0, self._clock() - since)
        return {state: found.get(state, 0) for state in STATES}, waited

    def _jobs(self, where: str, *values: object) -> Iterator[StoredJob]:
        with using_disk(self._folder):
            rows = self._db.execute(f"SELECT {_FIELDS} FROM jobs {where}", values).fetchall()
        return (
            StoredJob(**dict(zip(StoredJob.__struct_fields__, row, strict=True))) for row in rows
        )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make all changes of the block together, or none if it raises."""
        with using_disk(self._folder):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _descriptor(self, path: Path) -> int:
        with using_disk(self._folder):
            try:
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise gone() from None

    def _answer_path(self, job: StoredJob) -> Path:
        return self._answers / f"{job.id}-{job.lease}"

    def _unlink(self, job: StoredJob) -> None:
        for path in (self._bodies / job.id, self._answer_path(job)):
            # What cannot be removed now is removed by `sweep`.
            with suppress(OSError):
                path.unlink()


class JobBody:
    """A request's body while it is written to disk; `close` removes it unless a job has it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"new-{secrets.token_hex(16)}"
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        self.size = 0
        self.kept = False

    def write(self, data: bytes) -> None:
        """Append bytes. Raises StorageFull."""
        with using_disk(self._path.parent):
            _write_all(self._file, data)
        self.size += len(data)

    def sync(self) -> None:
        """Make the body durable."""
        os.fsync(self._file)

    def keep(self, name: str) -> None:
        """Give the body the name of its job, durably."""
        path = self._path.with_name(name)
        self._path.rename(path)
        self._path = path
        _sync_folder(path.parent)

    def close(self) -> None:
        os.close(self._file)
        if not self.kept:
            with suppress(OSError):
                self._path.unlink()


def _write(path: Path, data: bytes) -> None:
    """Write a new file durably."""
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        _write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    _sync_folder(path.parent)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LINES = 10  # of the log, about a disk that cannot be used
_UNUSABLE = "the server's jobs cannot be read or written at the moment; try again"


@contextmanager
def using_disk(folder: Path) -> Iterator[None]:
    """Raise StorageFull if the folder's disk is full, Overloaded for other errors of the disk."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        log.error("jobs in %s: %s", folder, error, extra=at_most(_LINES))
        if _is_full(error):
            raise StorageFull("the server has no room for the job; try again later") from None
        raise Overloaded(_UNUSABLE) from None


def _is_full(error: Any) -> bool:
    full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return full or getattr(error, "errno", None) in _FULL
