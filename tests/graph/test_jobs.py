"""Jobs: the answer of a waiting client, whatever becomes of the frontend."""

from __future__ import annotations

import contextlib
import io
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import soundfile
import yaml

from auricle.client import SyncClient
from auricle.frontend.transport.access.keys import new_key
from auricle_testing import recordings
from auricle_testing.scraping import scraped, values
from auricle_testing.server import ANSWER_SECONDS, Server, eventually, frontend_beside

pytestmark = pytest.mark.end_to_end
JOBS, NOW = "/v1/audio/jobs", "/v1/audio/transcriptions"
LATER = {"Prefer": "respond-async"}
DONE_SECONDS = 240.0
LEASE = "--Frontend.job_lease_seconds=2"
TIMES = 12  # the long recording is still in progress when its frontend is killed


@dataclass(frozen=True)
class Jobs:
    """The API of one frontend, with a key or without."""

    url: str
    key: str | None = None

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        headers |= options.pop("headers", {})
        url = self.url + path
        return httpx.request(method, url, timeout=DONE_SECONDS, headers=headers, **options)

    def post(
        self, path: str, audio: bytes, headers: dict[str, str] | None = None, **fields: str
    ) -> httpx.Response:
        return self.call(
            *("POST", path),
            data={"model": "demo", **fields},
            files={"file": ("audio.flac", audio)},
            headers=headers or {},
        )

    def submitted(self, audio: bytes, **fields: str) -> str:
        answer = self.post(JOBS, audio, **fields)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def job(self, job: str) -> dict[str, Any]:
        answer = self.call("GET", f"{JOBS}/{job}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def result(self, job: str) -> httpx.Response:
        return self.call("GET", f"{JOBS}/{job}/result")

    async def ended(self, job: str) -> dict[str, Any]:
        await eventually(lambda: self.job(job)["status"] in ("done", "failed"), DONE_SECONDS)
        return self.job(job)

    async def begun(self, job: str) -> None:
        await eventually(lambda: self.job(job)["status"] == "running", DONE_SECONDS)


def in_work(url: str) -> float:
    """The number of recordings that a frontend transcribes."""
    (number,) = values(scraped(url), "auricle_frontend_recordings")
    return number


@pytest.fixture(scope="module")
def short() -> bytes:
    return Path(recordings.path("hello")).read_bytes()


@pytest.fixture(scope="module")
def long() -> bytes:
    file = io.BytesIO()
    samples = np.tile(recordings.samples("market"), TIMES)
    soundfile.write(file, samples, 16_000, format="FLAC")
    return file.getvalue()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    made = {name: new_key(name) for name in ("acme", "globex")}
    entries = [entry.model_dump(exclude_defaults=True) for _, entry in made.values()]
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    file.write_text(yaml.safe_dump({"keys": entries}))
    return file, {name: secret for name, (secret, _) in made.items()}


@pytest.fixture(scope="module")
def guarded(
    server: Server, keys: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Jobs]]:
    """A frontend with keys and narrow limits, as each of its clients sees it."""
    folder = tmp_path_factory.mktemp("jobs")
    with frontend_beside(
        server,
        f"--Frontend.jobs_folder={folder}",
        f"--Frontend.api_keys_file={keys[0]}",
        "--Frontend.max_jobs=8",
        "--Frontend.max_running_jobs=2",
    ) as frontend:
        yield {name: Jobs(frontend.url, secret) for name, secret in keys[1].items()}


@pytest.fixture
def acme(guarded: dict[str, Jobs]) -> Iterator[Jobs]:
    """A client whose jobs are removed after the test."""
    client = guarded["acme"]
    yield client
    for job in client.call("GET", f"{JOBS}?limit=100").json()["data"]:
        assert client.call("DELETE", f"{JOBS}/{job['id']}").status_code == 204


# ── the answer ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": "text"},
        {"response_format": "srt"},
        {"stream": "true"},
        {"response_format": "xml"},
    ],
)
async def test_the_answer_has_the_bytes_that_a_waiting_client_gets(
    acme: Jobs, short: bytes, fields: dict[str, str]
) -> None:
    now = acme.post(NOW, short, **fields)
    accepted = acme.post(NOW, short, LATER, **fields)
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    await acme.ended(accepted.json()["id"])
    later = acme.call("GET", accepted.headers["location"] + "/result")
    assert (later.status_code, later.content) == (now.status_code, now.content)
    assert later.headers["content-type"] == now.headers["content-type"]


async def test_a_job_of_deepgrams_api_has_its_answer(acme: Jobs, short: bytes) -> None:
    """Except for the names and times of the request, which are each request's own."""
    url, audio = "/v1/listen?model=demo&utterances=true", {"Content-Type": "audio/flac"}
    now = acme.call("POST", url, content=short, headers=audio).json()
    accepted = acme.call("POST", url, content=short, headers=audio | LATER)
    await acme.ended(accepted.json()["id"])
    later = acme.result(accepted.json()["id"]).json()
    for answer in (now, later):
        del answer["metadata"]["request_id"], answer["metadata"]["created"]
        del answer["results"]["utterances"][0]["id"]
    assert later == now


def test_the_client_library_submits_and_waits(acme: Jobs) -> None:
    client = SyncClient(acme.url, api_key=acme.key)
    job = client.submit(recordings.path("hello"))
    path = recordings.path("hello")
    assert client.wait(job.id).text == client.transcribe(path).text
    assert client.job(job.id).status == "done"


# ── other clients, limits ───────────────────────────────────────────────────


async def test_a_job_of_another_tenant_is_not_there(
    guarded: dict[str, Jobs], acme: Jobs, short: bytes
) -> None:
    job, other = acme.submitted(short), guarded["globex"]
    await acme.ended(job)
    for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        answer = other.call(method, f"{JOBS}/{job}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "job_not_found")
    assert other.call("GET", JOBS).json()["data"] == []
    assert acme.result(job).status_code == 200


async def test_a_full_folder_refuses_one_client_and_not_the_other(
    guarded: dict[str, Jobs], acme: Jobs, short: bytes
) -> None:
    for _ in range(4):
        acme.submitted(short)
    refused = acme.post(JOBS, short)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
    assert "you have 4 jobs here" in refused.json()["error"]["message"]
    other = guarded["globex"]
    job = other.submitted(short)
    assert (await other.ended(job))["status"] == "done"
    assert other.call("DELETE", f"{JOBS}/{job}").status_code == 204


async def test_a_removed_job_is_cancelled(acme: Jobs, long: bytes) -> None:
    job = acme.submitted(long)
    await acme.begun(job)
    assert acme.call("DELETE", f"{JOBS}/{job}").status_code == 204
    assert acme.call("GET", f"{JOBS}/{job}").status_code == 404
    await eventually(lambda: in_work(acme.url) == 0, seconds=ANSWER_SECONDS)


def test_without_a_folder_the_setting_is_named(server: Server, short: bytes) -> None:
    jobs = Jobs(server.url)
    for answer in (jobs.post(JOBS, short), jobs.call("GET", f"{JOBS}/job_1")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_jobs")
        assert "Frontend.jobs_folder" in answer.json()["error"]["message"]
    assert jobs.post(NOW, short, LATER).status_code == 200


# ── frontends that go ───────────────────────────────────────────────────────


@pytest.mark.deployment
async def test_a_killed_frontend_loses_and_doubles_no_job(
    server: Server, tmp_path: Path, short: bytes, long: bytes
) -> None:
    folder = f"--Frontend.jobs_folder={tmp_path / 'jobs'}"
    with contextlib.ExitStack() as frontends:
        # The test kills it, which `frontend_beside` reports at its end.
        frontends.enter_context(pytest.raises(AssertionError, match="did not end cleanly"))
        first = frontends.enter_context(frontend_beside(server, folder, LEASE))
        jobs = Jobs(first.url)
        expected = {True: jobs.post(NOW, long).content, False: jobs.post(NOW, short).content}
        running = jobs.submitted(long)
        await jobs.begun(running)
        sent = {running: True, **{jobs.submitted(short): False for _ in range(3)}}
        states = {job: jobs.job(job) for job in sent}
        psutil.Process(first.process.pid).send_signal(signal.SIGKILL)
        first.process.wait(ANSWER_SECONDS)
    assert states[running]["status"] == "running"
    with frontend_beside(server, folder, LEASE) as second:
        jobs = Jobs(second.url)
        for job, is_long in sent.items():
            assert (await jobs.ended(job))["status"] == "done"
            assert jobs.result(job).content == expected[is_long]
        assert jobs.job(running)["attempts"] == 2
        listed = jobs.call("GET", JOBS).json()["data"]
        assert sorted(job["id"] for job in listed) == sorted(sent)


@contextlib.contextmanager
def unlocked(folder: Path) -> Iterator[None]:
    """No process of the folder is within a transaction while the block runs."""
    with contextlib.closing(sqlite3.connect(folder / "jobs.sqlite", timeout=60.0)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.rollback()


@pytest.mark.deployment
async def test_the_other_frontend_of_a_folder_takes_over(
    server: Server, tmp_path: Path, long: bytes
) -> None:
    """While one is frozen, too: its late answer changes nothing."""
    folder = f"--Frontend.jobs_folder={tmp_path / 'jobs'}"
    with (
        frontend_beside(server, folder, LEASE) as one,
        frontend_beside(server, folder, LEASE) as another,
    ):
        job = Jobs(one.url).submitted(long)
        await eventually(lambda: in_work(one.url) + in_work(another.url) == 1, DONE_SECONDS)
        busy, free = (one, another) if in_work(one.url) else (another, one)
        jobs, frozen = Jobs(free.url), psutil.Process(busy.process.pid)
        with unlocked(tmp_path / "jobs"):
            frozen.suspend()
        try:
            assert jobs.job(job)["status"] == "running"
            await eventually(lambda: jobs.job(job)["attempts"] == 2, DONE_SECONDS)
        finally:
            frozen.resume()
        assert (await jobs.ended(job))["status"] == "done"
        assert Jobs(busy.url).result(job).content == jobs.result(job).content
        await eventually(lambda: in_work(one.url) + in_work(another.url) == 0, DONE_SECONDS)
        assert jobs.job(job)["attempts"] == 2
    assert len([*(tmp_path / "jobs" / "answers").iterdir()]) == 1


@pytest.mark.deployment
async def test_a_frontend_that_stops_returns_its_job(
    server: Server, tmp_path: Path, long: bytes
) -> None:
    """It does not wait for a recording of hours; the next frontend begins it at once."""
    folder = f"--Frontend.jobs_folder={tmp_path / 'jobs'}"
    with frontend_beside(server, folder) as first:
        jobs = Jobs(first.url)
        job = jobs.submitted(long)
        await jobs.begun(job)
        assert jobs.job(job)["status"] == "running"
    with frontend_beside(server, folder) as second:
        jobs = Jobs(second.url)
        done = await jobs.ended(job)
        assert (done["status"], done["attempts"]) == ("done", 1)
        assert jobs.result(job).json()["text"]
