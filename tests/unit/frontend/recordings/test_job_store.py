"""The store of jobs: claims, leases, limits, expiry, and files that a dead process has left."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auricle.core.errors import (
    AuricleError,
    Overloaded,
    RateLimited,
    SettingsError,
    StorageFull,
    UnknownJob,
)
from auricle.frontend.recordings.jobs.store import (
    ATTEMPTS,
    JobLimits,
    JobStore,
    StoredAnswer,
    StoredJob,
)
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
HOUR = 3600.0
ROOMY = JobLimits(jobs=100, bytes=10_000, keep_seconds=24 * HOUR)
ANSWER = StoredAnswer(200, ((b"content-type", b"text/plain"),), b"ten green apples\n")


class Stores:
    """Stores of one folder, each as another frontend has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.opened: list[JobStore] = []
        self._made = 0

    def open(self, limits: JobLimits = ROOMY) -> JobStore:
        self.opened.append(JobStore(self.folder, limits, self.clock))
        return self.opened[-1]

    def added(self, store: JobStore, owner: str = "acme", body: bytes = b"RIFF") -> StoredJob:
        self._made += 1
        job = StoredJob(
            id=f"job_{self._made:032x}",
            tenant=owner,
            owner=owner,
            address="127.0.0.1",
            path="/v1/listen",
            query="model=demo",
            content_type="audio/wav",
            size=len(body),
            created=self.clock(),
        )
        file = store.body()
        try:
            file.write(body)
            store.add(job, file)
        finally:
            file.close()
        return job

    def files(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*") if path.parent != self.folder}


@pytest.fixture
def stores(tmp_path: Path) -> Any:
    made = Stores(tmp_path / "jobs")
    yield made
    for store in made.opened:
        store.close()


def claimed(store: JobStore) -> StoredJob:
    job = store.claim()
    assert job is not None
    return job


def content(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def state(store: JobStore, job: StoredJob) -> StoredJob:
    found = store.find(job.id, job.tenant)
    assert found is not None
    return found


# ── a job's way ─────────────────────────────────────────────────────────────


def test_an_answer_is_kept_as_it_was_and_the_body_is_removed(stores: Stores) -> None:
    store = stores.open()
    added = stores.added(store, body=b"RIFF and more")
    job = claimed(store)
    assert (job.id, job.state, job.attempts) == (added.id, "running", 1)
    assert content(store.open_body(job)) == b"RIFF and more"
    assert store.finish(job, "done", ANSWER, "", "")
    done = state(store, job)
    assert (done.state, done.status) == ("done", 200)
    answer, body = store.answer(done)
    assert (answer.status, answer.headers) == (ANSWER.status, ANSWER.headers)
    assert content(body) == ANSWER.body
    assert stores.files() == {f"{job.id}-{job.lease}"}


def test_a_job_survives_the_process_that_took_it(stores: Stores) -> None:
    first = stores.open()
    job = stores.added(first)
    first.close()
    assert claimed(stores.open()).id == job.id


def test_each_job_is_claimed_by_one_frontend(stores: Stores) -> None:
    one, other = stores.open(), stores.open()
    jobs = {stores.added(one).id for _ in range(4)}
    taken = [claimed(store).id for store in (one, other, one, other)]
    assert set(taken) == jobs
    assert one.claim() is None and other.claim() is None


def test_clients_take_turns_however_many_jobs_one_has(stores: Stores) -> None:
    store = stores.open()
    for owner in ("greedy",) * 4 + ("modest",) * 2:
        stores.added(store, owner)
    order = []
    for _ in range(6):
        job = claimed(store)
        order.append(job.owner)
        store.finish(job, "done", ANSWER, "", "")
        store.remove(job.id, job.tenant)  # a removed job still counts as a turn
    assert order == ["greedy", "modest", "greedy", "modest", "greedy", "greedy"]


def test_a_client_with_fewer_running_jobs_comes_first(stores: Stores) -> None:
    store = stores.open()
    stores.added(store, "modest")
    store.finish(claimed(store), "done", ANSWER, "", "")
    for owner in ("greedy", "greedy", "modest"):
        stores.added(store, owner)
    assert [claimed(store).owner for _ in range(3)] == ["greedy", "modest", "greedy"]


def test_owners_that_must_wait_are_passed_over(stores: Stores) -> None:
    store = stores.open()
    stores.added(store, "limited")
    stores.added(store, "free")
    job = store.claim({"limited"})
    assert job is not None and job.owner == "free"
    assert store.claim({"limited"}) is None


def test_jobs_that_must_wait_are_passed_over(stores: Stores) -> None:
    store = stores.open()
    first = stores.added(store, "acme")
    stores.added(store, "acme")
    job = store.claim(jobs={first.id})
    assert job is not None and job.id != first.id
    assert store.claim(jobs={first.id}) is None


# ── frontends that die ──────────────────────────────────────────────────────


def test_a_lease_without_a_sign_of_life_is_taken_back(stores: Stores) -> None:
    dead, alive = stores.open(), stores.open()
    stores.added(dead)
    job = claimed(dead)
    (lease,) = alive.leases()
    assert alive.take_back(lease)
    again = claimed(alive)
    assert (again.id, again.attempts) == (job.id, 2)
    assert again.lease != job.lease


def test_a_sign_of_life_keeps_the_lease(stores: Stores) -> None:
    slow, other = stores.open(), stores.open()
    stores.added(slow)
    job = claimed(slow)
    (before,) = other.leases()
    assert slow.beat({job: 12.5}) == {job}
    assert not other.take_back(before)
    assert state(other, job).seconds == 12.5
    assert slow.finish(job, "done", ANSWER, "", "")


def test_the_answer_of_a_frontend_that_lost_its_lease_is_refused(stores: Stores) -> None:
    slow, other = stores.open(), stores.open()
    stores.added(slow)
    late = claimed(slow)
    (lease,) = other.leases()
    other.take_back(lease)
    again = claimed(other)
    assert slow.beat({late: 1.0}) == set()
    assert not slow.finish(late, "done", StoredAnswer(200, (), b"of the slow one"), "", "")
    slow.requeue(late)
    assert state(other, again).state == "running"
    assert other.finish(again, "done", ANSWER, "", "")
    assert content(slow.answer(state(slow, again))[1]) == ANSWER.body
    assert stores.files() == {f"{again.id}-{again.lease}"}


def test_a_job_fails_after_its_last_attempt(stores: Stores) -> None:
    store = stores.open()
    job = stores.added(store)
    for _ in range(ATTEMPTS):
        claimed(store)
        assert store.take_back(*store.leases())
    failed = state(store, job)
    assert (failed.state, failed.code, failed.attempts) == ("failed", "interrupted", ATTEMPTS)
    assert f"in each of {ATTEMPTS} attempts" in failed.error
    assert store.claim() is None
    assert stores.files() == set()
    with pytest.raises(UnknownJob):
        store.answer(failed)


def test_a_returned_job_is_as_if_it_had_not_been_claimed(stores: Stores) -> None:
    store = stores.open()
    stores.added(store)
    for _ in range(2 * ATTEMPTS):
        store.requeue(claimed(store))
    assert claimed(store).attempts == 1
    (lease,) = store.leases()
    store.take_back(lease)
    charged = claimed(store)
    store.requeue(charged, charged=True)
    assert claimed(store).attempts == 3


CRASHES = """
import os, signal, sqlite3, sys
from pathlib import Path
from auricle.frontend.recordings.jobs import store as module

folder, point = Path(sys.argv[1]), sys.argv[2]
store = module.JobStore(folder, module.JobLimits(100, 10_000, 3600.0))

def dies(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

if point == "add":
    body = store.body()
    body.write(b"RIFF")
    module._sync_folder = dies  # within the transaction, after the body has its name
    job = module.StoredJob(id="job_1", tenant="t", owner="t", address="", path="/", query="",
                           content_type="", size=4, created=0.0)
    store.add(job, body)
job = store.claim()
if point == "answer":
    module._sync_folder = dies  # the answer is written, the job has not ended
elif point == "finish":
    store._db.set_trace_callback(lambda sql: sql == "COMMIT" and dies())
store.finish(job, "done", module.StoredAnswer(200, (), b"text"), "", "")
"""


@pytest.mark.parametrize("point", ["add", "answer", "finish"])
def test_a_process_that_dies_in_a_change_leaves_all_of_it_or_nothing(
    stores: Stores, point: str
) -> None:
    store = stores.open()
    if point != "add":
        stores.added(store, "t")
    command = [sys.executable, "-c", CRASHES, str(stores.folder), point]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    counts, _ = store.counts()
    assert counts["done"] == counts["failed"] == 0
    if point == "add":
        assert counts["queued"] == 0
    else:
        (lease,) = store.leases()
        assert store.take_back(lease)
        assert store.finish(claimed(store), "done", ANSWER, "", "")
    stores.clock.now += 10**10  # the files' times are the system's
    store.sweep(HOUR)
    assert len(stores.files()) == counts["running"]  # the answer of the second attempt


RUNS = """
import sys
from pathlib import Path
from auricle.frontend.recordings.jobs.store import JobLimits, JobStore, StoredAnswer

folder, held = sys.argv[1:]
store = JobStore(Path(folder), JobLimits(100, 10_000, 3600.0))
claims = 0
while (job := store.claim()) is not None:
    print(job.id, flush=True)
    claims += 1
    if claims == int(held):
        sys.stdin.read()
    store.finish(job, "done", StoredAnswer(200, (), job.id.encode()), "", "")
"""


def runs(folder: Path, *, held: int = 0) -> subprocess.Popen[str]:
    """A process that finishes jobs, and keeps the one that it claims as number `held`."""
    command = [sys.executable, "-c", RUNS, str(folder), str(held)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_share_the_jobs_and_a_killed_one_loses_none(stores: Stores) -> None:
    store = stores.open()
    jobs = [stores.added(store, f"tenant-{number % 3}") for number in range(40)]
    killed = runs(stores.folder, held=3)
    assert killed.stdout is not None
    claims = [killed.stdout.readline().strip() for _ in range(3)]
    running = [runs(stores.folder) for _ in range(2)]
    for process in running:
        said, _ = process.communicate(timeout=120)
        claims += said.split()
    killed.kill()
    killed.communicate(timeout=120)
    (lost,) = store.leases()
    assert store.take_back(lost)
    while (job := store.claim()) is not None:
        store.finish(job, "done", StoredAnswer(200, (), job.id.encode()), "", "")
    for job in jobs:
        done = state(store, job)
        assert done.state == "done"
        assert content(store.answer(done)[1]) == job.id.encode()
    assert sorted(claims) == sorted(job.id for job in jobs)
    stores.clock.now += 10**10  # the files' times are the system's
    store.sweep(HOUR)
    assert len(stores.files()) == len(jobs)  # one answer for each, and no body


# ── limits ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limits", "others", "own", "refused", "says"),
    [
        (JobLimits(4, 10_000, HOUR), 0, 2, RateLimited, "you have 2 jobs here, at most 2"),
        (JobLimits(4, 10_000, HOUR), 4, 0, Overloaded, "the server has 4 jobs"),
        (JobLimits(99, 20, HOUR), 0, 2, RateLimited, "12 bytes together, at most 10 are allowed"),
        (JobLimits(99, 10, HOUR), 2, 0, StorageFull, "no room for the job"),
    ],
)
def test_jobs_are_bounded(
    stores: Stores,
    limits: JobLimits,
    others: int,
    own: int,
    refused: type[AuricleError],
    says: str,
) -> None:
    store = stores.open(limits)
    for number in range(others):
        stores.added(store, f"other-{number % 2}")
    for _ in range(own):
        stores.added(store)
    before = stores.files()
    for attempt in (lambda: store.check_room("acme", 4), lambda: stores.added(store)):
        with pytest.raises(refused, match=says) as error:
            attempt()
        assert error.value.retry_after_seconds
    assert stores.files() == before


def test_a_removed_job_makes_room(stores: Stores) -> None:
    store = stores.open(JobLimits(4, 10_000, HOUR))
    job = stores.added(store)
    stores.added(store)
    assert store.remove(job.id, "acme")
    stores.added(store)


def test_a_full_disk_is_told_from_a_folder_that_cannot_be_used(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores.open()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StorageFull):
            stores.added(store)
    assert stores.files() == set()
    (stores.folder / "bodies").rmdir()
    with pytest.raises(Overloaded, match="cannot be read or written"):
        stores.added(store)


# ── other clients, expiry ───────────────────────────────────────────────────


def test_a_job_of_another_tenant_does_not_exist(stores: Stores) -> None:
    store = stores.open()
    job = stores.added(store, "acme")
    assert store.find(job.id, "globex") is None
    assert not store.remove(job.id, "globex")
    assert store.page("globex", "globex", 10) == []
    assert store.find(job.id, "acme") is not None


@pytest.mark.parametrize("name", ["../jobs.sqlite", "/etc/passwd", "job_' OR 1=1 --", "%", ""])
def test_an_id_is_only_compared(stores: Stores, name: str) -> None:
    store = stores.open()
    stores.added(store)
    assert store.find(name, "acme") is None
    assert not store.remove(name, "acme")
    assert store.counts()[0]["queued"] == 1


def test_a_list_has_pages(stores: Stores) -> None:
    store = stores.open()
    made = [stores.added(store).id for _ in range(5)]
    stores.added(store, "globex")
    first = store.page("acme", "acme", 3)
    second = store.page("acme", "acme", 3, first[-1].id)
    assert [job.id for job in (*first, *second)] == made[::-1]
    assert store.page("acme", "acme", 3, "job_unknown") == []


def test_answers_expire(stores: Stores) -> None:
    store = stores.open()
    old = stores.added(store)
    store.finish(claimed(store), "done", ANSWER, "", "")
    stores.clock.now += 24 * HOUR - 1
    assert store.expire() == 0
    stores.clock.now += 2
    assert store.expire() == 1
    assert store.find(old.id, "acme") is None
    assert stores.files() == set()


def test_a_job_that_never_began_ends_with_a_reason(stores: Stores) -> None:
    store = stores.open()
    job = stores.added(store)
    assert store.counts()[1] == 0.0
    stores.clock.now += 24 * HOUR + 1
    assert store.counts()[1] == 24 * HOUR + 1
    store.expire()
    failed = state(store, job)
    assert (failed.state, failed.code) == ("failed", "expired")
    assert "within 24 hours" in failed.error
    assert stores.files() == set()


def test_files_without_a_job_are_removed_when_they_are_old(stores: Stores) -> None:
    store = stores.open()
    kept = stores.added(store)
    for name in ("bodies/new-1", "bodies/job_0", "answers/job_0-1"):
        (stores.folder / name).write_bytes(b"left over")
    stores.clock.now = (stores.folder / "answers/job_0-1").stat().st_mtime + 1
    assert store.sweep(HOUR) == 0
    stores.clock.now += HOUR
    assert store.sweep(HOUR) == 3
    assert stores.files() == {kept.id}


# ── the folder ──────────────────────────────────────────────────────────────


def test_others_on_the_machine_cannot_read_the_folder(stores: Stores) -> None:
    stores.added(stores.open())
    for path in (stores.folder, *stores.folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def _damage(folder: Path) -> None:
    (folder / "jobs.sqlite").write_bytes(b"not a database" * 1_000)


def _of_a_later_version(folder: Path) -> None:
    with sqlite3.connect(folder / "jobs.sqlite") as db:
        db.execute("PRAGMA user_version = 9")
    db.close()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(_damage, "move the folder's content away"), (_of_a_later_version, "it has version 9, not 1")],
)
def test_a_database_that_cannot_be_used_is_named_at_the_start(
    stores: Stores, spoil: Callable[[Path], None], says: str
) -> None:
    stores.open().close()
    spoil(stores.folder)
    with pytest.raises(SettingsError, match=f"Frontend.jobs_folder: .*{says}"):
        stores.open()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Frontend.jobs_folder: .*No such file"):
        JobStore(tmp_path / "missing" / "jobs", ROOMY)
