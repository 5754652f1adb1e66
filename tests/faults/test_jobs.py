"""Frontends that share jobs are killed in turn: each job has one answer, the undisturbed one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from auricle.client import Client, Transcript
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, Server, eventually, frontend_beside
from tests.faults.recordings import IN_WORK

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
NAMES = ("hello", "market", "station", "kitchen")
DONE_SECONDS = 300.0


def in_work(frontend: Server) -> bool:
    """Whether a frontend transcribes a recording."""
    return frontend.metric("Frontend", IN_WORK) > 0


def discovered(server: Server) -> set[Path]:
    """The records of all live frontends."""
    return {record for record in server.discovery.rglob("*%2Ffrontend%2F*") if record.is_file()}


def listed(frontend: Server) -> list[str]:
    """The ids of all jobs."""
    found = httpx.get(f"{frontend.url}/v1/audio/jobs?limit=100", timeout=ANSWER_SECONDS).json()
    return sorted(one["id"] for one in found["data"])


def sharing(server: Server, folder: Path) -> contextlib.AbstractContextManager[Server]:
    """One more frontend, with this folder of jobs."""
    return frontend_beside(
        server,
        f"--Frontend.jobs_folder={folder}",
        "--Frontend.job_lease_seconds=2",
        "--Frontend.max_running_jobs=2",
    )


@contextlib.contextmanager
def killed(server: Server, folder: Path) -> Iterator[Server]:
    """The same, which is killed at the end of the block."""
    with (
        pytest.raises(AssertionError, match="did not end cleanly"),
        sharing(server, folder) as frontend,
    ):
        yield frontend
        psutil.Process(frontend.process.pid).send_signal(signal.SIGKILL)
        frontend.process.wait(ANSWER_SECONDS)


async def test_no_job_is_lost_or_doubled_while_frontends_die(
    server: Server, tmp_path: Path
) -> None:
    folder = tmp_path / "jobs"
    expected: dict[str, Transcript] = {}
    jobs: dict[str, str] = {}  # the recording of each, by id
    for name in NAMES:
        expected[name] = await Client(server.url).transcribe(recordings.path(name))
    registered = discovered(server)
    with sharing(server, folder) as survivor:
        client = Client(survivor.url)

        async def submit_until_in_work(frontend: Server) -> None:
            """Submit faster than three frontends transcribe, on a machine of any speed."""
            async with asyncio.timeout(DONE_SECONDS):
                for name in itertools.cycle(NAMES):
                    jobs[(await client.submit(recordings.path(name))).id] = name
                    if in_work(frontend):
                        return

        with killed(server, folder) as second:
            with killed(server, folder) as first:
                await submit_until_in_work(first)
            await submit_until_in_work(second)
        for job, name in jobs.items():
            assert await client.wait(job, timeout_seconds=DONE_SECONDS) == expected[name]
            assert (await client.job(job)).attempts <= 3
        assert listed(survivor) == sorted(jobs)
        assert len([*(folder / "answers").iterdir()]) == len(jobs)
    # Dynamo removes the records of a killed process after its lease.
    await eventually(lambda: discovered(server) == registered, DONE_SECONDS)
