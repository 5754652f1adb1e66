"""The API of jobs, over a real HTTP server, with a transcriber that answers from a script."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import httpx
import pytest
from prometheus_client import CollectorRegistry

from auricle.client import Client
from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, DeadlineExceeded, Overloaded, WorkerUnavailable
from auricle.dynamo import Tokens
from auricle.frontend.frontend import Frontend
from auricle.frontend.main import build_services
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.stream.resume import PURPOSE
from auricle.frontend.recordings.jobs.queue import JobQueue
from auricle.frontend.recordings.jobs.store import StoredAnswer
from auricle.frontend.recordings.transcriber import Recording
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing, new_key
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.app import create_app
from auricle.process.metrics import Registry
from tests.fakes.doors import Door, event_loop_policy
from tests.fakes.pools import Pools
from tests.fakes.transcriber import Outputs, Scripted
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
JOBS, NOW = "/v1/audio/jobs", "/v1/audio/transcriptions"
ACME, GLOBEX = new_key("acme"), new_key("globex")
ASYNC = {"Prefer": "respond-async"}


class Gated(Scripted):
    """A scripted transcriber that fails with `failures` first, and then waits for `gate`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[Exception] = []
        self.running = self.most = 0

    async def transcribe(self, recording: Recording) -> Outputs:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            self.asked.set()
            await self.gate.wait()
            if self.failures:
                raise self.failures.pop(0)
            async for output in super().transcribe(recording):
                yield output
        finally:
            self.running -= 1


class Server:
    """A frontend with a folder of jobs, at `url` while it serves."""

    def __init__(self, folder: Path | None, keys: Sequence[ApiKey] | None = None, **more: Any):
        self.settings = FrontendSettings(jobs_folder=folder, **more)
        self.registry = CollectorRegistry()
        self.transcriber = Gated()
        self.access = Access(KeyRing(keys))
        unused = cast(Any, None)
        self.admission = SessionAdmission(unused, 1)
        metrics = FrontendMetrics(self.registry, self.settings)
        self.frontend = Frontend(
            *(self.settings, ("demo",), unused, self.admission, unused, unused, metrics)
        )
        self.door = Door()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client without a key; the jobs end with the block, as at a SIGTERM."""
        jobs = await JobQueue.open(self.settings)
        unused, diagnosis = cast(Any, None), cast(Any, SimpleNamespace(diagnose=None))
        with patch("auricle.frontend.main.RecordingTranscriber", return_value=self.transcriber):
            services = build_services(
                *(self.frontend, self.access, unused, Registry(), diagnosis),
                *(Tokens(None, PURPOSE), jobs),
            )
        async with asyncio.timeout(120), self.door.serving(create_app(services)):
            running = None if services.run_jobs is None else services.run_jobs()
            task = None if running is None else asyncio.create_task(running)
            address = f"http://127.0.0.1:{self.door.port}"
            async with httpx.AsyncClient(base_url=address, timeout=60) as client:
                try:
                    yield client
                finally:
                    self.admission.begin_drain(0.0)
                    if task is not None:
                        await task
                    if jobs is not None:
                        await jobs.close()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"auricle_frontend_{name}", labels)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


def bearer(key: tuple[str, ApiKey]) -> dict[str, str]:
    return {"Authorization": f"Bearer {key[0]}"}


async def sent(
    client: httpx.AsyncClient,
    path: str = JOBS,
    name: str = "x.wav",
    headers: dict[str, str] | None = None,
    **fields: str,
) -> httpx.Response:
    return await client.post(
        path,
        data={"model": "demo", **fields},
        files={"file": (name, b"RIFF" * 10)},
        headers=headers,
    )


async def submitted(client: httpx.AsyncClient, **options: Any) -> str:
    answer = await sent(client, **options)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def ended(client: httpx.AsyncClient, job: str, **options: Any) -> dict[str, Any]:
    """The document of a job, once it has ended."""
    while True:  # the test's server has a deadline
        found: dict[str, Any] = (await client.get(f"{JOBS}/{job}", **options)).json()
        if found["status"] in ("done", "failed"):
            return found
        await asyncio.sleep(0.01)


# ── the answer ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "fields", "headers"),
    [
        (NOW, {}, ASYNC),
        (NOW, {"response_format": "verbose_json"}, {"Prefer": "wait=10, Respond-Async"}),
        (NOW, {"response_format": "srt"}, ASYNC),
        (NOW, {"stream": "true"}, ASYNC),
        (NOW, {"temperature": "0.5", "response_format": "text"}, ASYNC),
        (NOW, {"response_format": "no"}, ASYNC),
        (JOBS, {}, {}),
    ],
)
async def test_the_answer_is_the_one_that_a_waiting_client_gets(
    folder: Path, path: str, fields: dict[str, str], headers: dict[str, str]
) -> None:
    server = Server(folder)
    async with server.serving() as client:
        now = await sent(client, NOW, **fields)
        accepted = await sent(client, path, headers=headers, **fields)
        assert accepted.status_code == 202
        job = accepted.json()
        assert accepted.headers["location"] == f"{JOBS}/{job['id']}"
        assert accepted.headers["preference-applied"] == "respond-async"
        assert (job["status"], job["endpoint"]) == ("queued", NOW)
        done = await ended(client, job["id"])
        later = await client.get(f"{JOBS}/{job['id']}/result")
    assert later.content == now.content
    assert later.status_code == now.status_code == done["response_status"]
    own = ("content-type", "auricle-warnings", "cache-control")
    assert [later.headers.get(name) for name in own] == [now.headers.get(name) for name in own]
    assert done["status"] == ("done" if now.is_success else "failed")
    assert done["expires_at"] >= done["finished_at"] + 24 * 3600


async def test_a_job_of_deepgrams_api_has_its_form(folder: Path) -> None:
    async with Server(folder).serving() as client:
        url = "/v1/listen?model=demo&utterances=true"
        accepted = await client.post(url, content=b"RIFF", headers=ASYNC)
        assert (await ended(client, accepted.json()["id"]))["status"] == "done"
        answer = (await client.get(accepted.headers["location"] + "/result")).json()
        assert answer["results"]["utterances"][0]["transcript"] == "ten green apples"
        wrong = await client.post("/v1/listen?model=no", content=b"RIFF", headers=ASYNC)
        failed = await ended(client, wrong.json()["id"])
        refusal = await client.get(wrong.headers["location"] + "/result")
        assert refusal.status_code == failed["response_status"] == 404
        assert refusal.json()["err_code"] == failed["error"]["code"] == "model_not_found"


async def test_a_recording_that_cannot_be_used_fails_with_its_error(folder: Path) -> None:
    async with Server(folder).serving() as client:
        job = await submitted(client, name="broken.wav")
        failed = await ended(client, job)
        assert failed["error"] == {
            "code": "undecodable_audio",
            "message": "broken.wav is not audio",
        }
        result = await client.get(f"{JOBS}/{job}/result")
        assert (result.status_code, result.json()["error"]["code"]) == (400, "undecodable_audio")


async def test_there_is_no_answer_before_the_end(folder: Path) -> None:
    server = Server(folder)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        job = await submitted(client)
        await server.transcriber.asked.wait()
        assert (await client.get(f"{JOBS}/{job}")).json()["status"] == "running"
        early = await client.get(f"{JOBS}/{job}/result")
        assert (early.status_code, early.json()["error"]["code"]) == (409, "job_not_done")
        assert early.headers["retry-after"]
        server.transcriber.gate.set()
        await ended(client, job)
        assert (await client.get(f"{JOBS}/{job}/result")).json()["text"] == "ten green apples"


async def test_the_client_library_waits_for_a_job(folder: Path, tmp_path: Path) -> None:
    server = Server(folder)
    good, broken = tmp_path / "x.wav", tmp_path / "broken.wav"
    for file in (good, broken):
        file.write_bytes(b"RIFF")
    async with server.serving() as client:
        library = Client(str(client.base_url))
        job = await library.submit(good, model="demo", language="en")
        assert (await library.wait(job.id)).text == "ten green apples"
        assert (await library.job(job.id)).status == "done"
        with pytest.raises(AuricleError, match=r"broken\.wav is not audio"):
            await library.wait((await library.submit(broken, model="demo")).id)
        server.transcriber.gate.clear()
        endless = await library.submit(good, model="demo")
        with pytest.raises(DeadlineExceeded, match=r"took longer than 0\.1 s"):
            await library.wait(endless.id, timeout_seconds=0.1)
        await library.remove(endless.id)
        with pytest.raises(AuricleError, match="does not exist"):
            await library.remove(endless.id)


# ── without jobs ────────────────────────────────────────────────────────────


async def test_without_a_folder_the_setting_is_named(folder: Path) -> None:
    async with Server(None).serving() as client:
        for answer in (
            await sent(client),
            await client.get(JOBS),
            await client.get(f"{JOBS}/job_1"),
            await client.get(f"{JOBS}/job_1/result"),
            await client.delete(f"{JOBS}/job_1"),
        ):
            assert answer.status_code == 404
            assert "Frontend.jobs_folder is not set" in answer.json()["error"]["message"]


async def test_without_a_folder_the_preference_is_ignored() -> None:
    """RFC 7240, 2: a server that cannot comply with a preference must not fail."""
    async with Server(None).serving() as client:
        answer = await sent(client, NOW, headers=ASYNC)
    assert answer.json()["text"] == "ten green apples"
    assert "preference-applied" not in answer.headers


# ── other clients ───────────────────────────────────────────────────────────


async def test_jobs_are_the_tenants_own(folder: Path) -> None:
    server = Server(folder, [ACME[1], GLOBEX[1]])
    async with server.serving() as client:
        own, other = bearer(ACME), bearer(GLOBEX)
        assert (await sent(client)).status_code == 401
        job = await submitted(client, headers=own)
        await ended(client, job, headers=own)
        for call in (client.get, client.delete):
            assert (await call(f"{JOBS}/{job}", headers=other)).status_code == 404
        assert (await client.get(f"{JOBS}/{job}/result", headers=other)).status_code == 404
        assert (await client.get(JOBS, headers=other)).json()["data"] == []
        (listed,) = (await client.get(JOBS, headers=own)).json()["data"]
        assert listed["id"] == job
        assert [recording.tenant for recording in server.transcriber.recordings] == ["acme"]


async def test_the_jobs_of_a_withdrawn_key_fail(folder: Path) -> None:
    """Running and queued ones; their key itself is not stored."""
    server = Server(folder, [ACME[1], GLOBEX[1]], max_running_jobs=1)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        jobs = [await submitted(client, headers=bearer(ACME)) for _ in range(2)]
        await server.transcriber.asked.wait()
        server.access.replace([GLOBEX[1]])
        await until(lambda: server.metric("jobs", state="failed") == 2)
        server.access.replace([ACME[1], GLOBEX[1]])
        for job in jobs:
            failed = await ended(client, job, headers=bearer(ACME))
            assert failed["error"]["code"] == "invalid_api_key"
            assert "was withdrawn" in failed["error"]["message"]
    assert not server.transcriber.recordings
    assert ACME[0].encode() not in stored(folder)


def stored(folder: Path) -> bytes:
    """All that the folder has."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_a_list_has_pages(folder: Path) -> None:
    server = Server(folder)
    async with server.serving() as client:
        made = [await submitted(client) for _ in range(3)]
        first = (await client.get(f"{JOBS}?limit=2")).json()
        after = first["data"][-1]["id"]
        rest = (await client.get(f"{JOBS}?limit=2&after={after}")).json()
        wrong = await client.get(f"{JOBS}?limit=0")
    assert [job["id"] for job in first["data"] + rest["data"]] == made[::-1]
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert wrong.status_code == 400
    assert "limit" in wrong.json()["error"]["message"]


@pytest.mark.parametrize("job", ["..%2Fjobs.sqlite", "%2e%2e", "job_0", "a" * 65, "%00", "%"])
async def test_an_id_that_is_none_is_refused(folder: Path, job: str) -> None:
    async with Server(folder).serving() as client:
        answer = await client.get(f"{JOBS}/{job}")
        assert answer.status_code in (400, 404)
        assert "message" in answer.json()["error"]


# ── limits ──────────────────────────────────────────────────────────────────


async def test_a_job_waits_while_the_server_is_full_or_its_key_is_at_a_limit(folder: Path) -> None:
    server = Server(folder, [ACME[1].model_copy(update={"max_sessions": 1})])
    server.transcriber.failures = [Overloaded("full", 0.01), WorkerUnavailable("gone")]
    server.transcriber.failures[1].retry_after_seconds = 0.01  # type: ignore[attr-defined]
    async with server.serving() as client:
        job = await submitted(client, headers=bearer(ACME))
        done = await ended(client, job, headers=bearer(ACME))
    assert (done["status"], done["attempts"]) == ("done", 2)  # a full server does not count


async def test_a_lasting_failure_is_answered_as_a_waiting_client_would_be(folder: Path) -> None:
    server = Server(folder)
    server.transcriber.failures = [WorkerUnavailable("gone") for _ in range(3)]
    for failure in server.transcriber.failures:
        failure.retry_after_seconds = 0.01  # type: ignore[attr-defined]
    async with server.serving() as client:
        job = await submitted(client)
        failed = await ended(client, job)
        result = await client.get(f"{JOBS}/{job}/result")
    assert (failed["status"], failed["attempts"]) == ("failed", 3)
    assert (result.status_code, result.json()["error"]["code"]) == (503, "unavailable")


async def test_few_jobs_run_at_a_time(folder: Path) -> None:
    server = Server(folder, max_running_jobs=2)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        jobs = [await submitted(client) for _ in range(4)]
        await server.transcriber.asked.wait()
        server.transcriber.gate.set()
        for job in jobs:
            await ended(client, job)
    assert server.transcriber.most == 1  # one client's: all but one


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [
        ({"max_jobs": 2}, 429, "rate_limited"),
        ({"max_upload_bytes": 1024, "max_stored_upload_bytes": 2048}, 413, "too_large"),
    ],
)
async def test_limits_are_named_before_the_job_is_stored(
    folder: Path, settings: dict[str, int], status: int, code: str
) -> None:
    server = Server(folder, **settings)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        if status == 429:
            await submitted(client)
        refused = await sent(client, name="x" * 200, prompt="y" * 900)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        assert len((await client.get(JOBS)).json()["data"]) == (status == 429)


async def test_an_empty_or_broken_body_leaves_nothing(folder: Path) -> None:
    server = Server(folder)
    async with server.serving() as client:
        empty = await client.post(JOBS, content=b"")
        assert (empty.status_code, empty.json()["error"]["code"]) == (400, "bad_request")
        _, writer = await server.door.connect()
        writer.write(b"POST /v1/audio/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nRIFF")
        await writer.drain()

        await until(lambda: any((folder / "bodies").iterdir()))
        writer.close()
        await until(lambda: not any((folder / "bodies").iterdir()))
        assert (await client.get(JOBS)).json()["data"] == []


async def test_a_recording_in_the_way_is_no_reason_to_refuse_a_job(folder: Path) -> None:
    server = Server(folder, max_recordings=1)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        waiting = asyncio.create_task(sent(client, NOW))
        await server.transcriber.asked.wait()
        job = await submitted(client)
        assert (await client.get(f"{JOBS}/{job}")).json()["status"] == "queued"
        server.transcriber.gate.set()
        assert (await waiting).status_code == 200
        assert (await ended(client, job))["status"] == "done"


# ── removal, draining, the next frontend ────────────────────────────────────


async def test_a_removed_job_is_cancelled_and_leaves_nothing(folder: Path) -> None:
    server = Server(folder)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        job = await submitted(client)
        await server.transcriber.asked.wait()
        assert (await client.delete(f"{JOBS}/{job}")).status_code == 204
        await until(lambda: server.transcriber.running == 0)
        assert (await client.get(f"{JOBS}/{job}")).status_code == 404
        assert (await client.delete(f"{JOBS}/{job}")).status_code == 404
    assert not any((folder / "bodies").iterdir())


async def test_a_job_that_is_removed_at_another_frontend_is_cancelled(folder: Path) -> None:
    other = await JobQueue.open(FrontendSettings(jobs_folder=folder))
    assert other is not None
    server = Server(folder, job_lease_seconds=1)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        job = await submitted(client)
        await server.transcriber.asked.wait()
        assert await other.call(other.store.remove, job, "default")
        await until(lambda: server.transcriber.running == 0)
        assert (await client.get(JOBS)).json()["data"] == []
    await other.close()


async def test_old_answers_and_files_without_a_job_are_removed(folder: Path) -> None:
    async with Server(folder).serving() as client:
        job = await submitted(client)
        await ended(client, job)
    orphan = folder / "bodies" / "new-0"
    orphan.write_bytes(b"of a frontend that died")
    os.utime(orphan, (0, 0))
    async with Server(folder, job_hours=1e-9).serving() as client:
        await until(lambda: not any((folder / "answers").iterdir()) and not orphan.exists())
        assert (await client.get(f"{JOBS}/{job}")).status_code == 404


async def test_a_drain_returns_running_jobs_to_the_next_frontend(folder: Path) -> None:
    first = Server(folder)
    first.transcriber.gate.clear()
    async with first.serving() as client:
        job = await submitted(client)
        await first.transcriber.asked.wait()
    async with Server(folder).serving() as client:
        done = await ended(client, job)
        assert (done["status"], done["attempts"]) == ("done", 1)
        assert (await client.get(f"{JOBS}/{job}/result")).json()["text"] == "ten green apples"


async def test_a_job_waits_without_an_attempt_while_a_pool_is_missing(folder: Path) -> None:
    first = Server(folder)
    first.transcriber.gate.clear()
    async with first.serving() as client:
        job = await submitted(client)
        await first.transcriber.asked.wait()
    server = Server(folder)
    pools = server.admission.pools = Pools()
    await pools.empty("pd_worker")
    async with server.serving() as client:
        await until(lambda: server.metric("jobs", state="queued") == 1)  # it has looked
        assert not server.transcriber.asked.is_set()
        pools.listings["pd_worker"].instances.append(1)
        done = await ended(client, job)
    assert (done["status"], done["attempts"]) == ("done", 1)


async def test_a_job_waits_for_an_optional_pool_and_others_overtake_it(folder: Path) -> None:
    server = Server(folder, speaker_model="models/speakers")
    pools = server.admission.pools = Pools()
    await pools.looked()
    await pools.empty("diarize_worker")
    async with server.serving() as client:
        told = await submitted(client, response_format="verbose_json", speakers="true")
        await ended(client, await submitted(client))
        document = (await client.get(f"{JOBS}/{told}")).json()
        assert (document["status"], document["attempts"]) == ("queued", 0)
        pools.listings["diarize_worker"].instances.append(1)
        done = await ended(client, told)
    assert (done["status"], done["attempts"]) == ("done", 1)


async def test_a_draining_frontend_takes_no_job(folder: Path) -> None:
    server = Server(folder)
    async with server.serving() as client:
        server.admission.begin_drain(0.0)
        refused = await sent(client)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")


async def test_another_frontend_runs_the_jobs_of_a_dead_one(folder: Path) -> None:
    """The dead one has claimed a job, and gives no more signs of life."""
    dead = await JobQueue.open(FrontendSettings(jobs_folder=folder))
    assert dead is not None
    server = Server(folder, job_lease_seconds=1, max_running_jobs=1)
    server.transcriber.gate.clear()
    async with server.serving() as client:
        first, second = [await submitted(client) for _ in range(2)]
        await server.transcriber.asked.wait()
        taken = await dead.call(dead.store.claim)
        assert taken is not None and taken.id in (first, second)
        server.transcriber.gate.set()
        for job in (first, second):
            assert (await ended(client, job))["status"] == "done"
        late = StoredAnswer(200, (), b"of the dead one")
        assert not await dead.call(dead.store.finish, taken, "done", late, "", "")
        answer = await client.get(f"{JOBS}/{taken.id}/result")
        assert answer.json()["text"] == "ten green apples"
    await dead.close()


async def test_jobs_are_counted_by_state(folder: Path) -> None:
    server = Server(folder)
    async with server.serving() as client:
        await ended(client, await submitted(client))
        await ended(client, await submitted(client, name="broken.wav"))
        await until(lambda: server.metric("jobs", state="failed") == 1)
    assert server.metric("jobs", state="done") == 1
    assert server.metric("jobs", state="queued") == 0
    assert server.metric("oldest_job_seconds") == 0
