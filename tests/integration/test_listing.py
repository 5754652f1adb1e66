"""Processes whose records discovery has lost, with Dynamo's own file and etcd discovery."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auricle_testing.server import eventually
from auricle_testing.services import Etcd, etcd_server

pytestmark = pytest.mark.integration
# A process that serves two endpoints with the given `settings` until it is killed.
SERVES = """
    import asyncio, sys
    from auricle.protocol.control import AskDecisions, Decisions
    from auricle.dynamo import Route, Runtime
    from auricle.config.settings import CommonSettings

    async def main():
        runtime = Runtime(CommonSettings.model_validate_json(sys.argv[1]))
        async def decisions(_request):
            return Decisions((), leads=True)
        await runtime.serve("planner", [Route("decisions", AskDecisions, unary=decisions)])

    asyncio.run(main())
"""


@contextlib.contextmanager
def serving(settings: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", textwrap.dedent(SERVES), settings]
    supervised = os.environ | {
        "AURICLE_SUPERVISED": "1",  # the process prints its status
        "PYTHONUNBUFFERED": "1",
        "DYN_LOG": "error",
    }
    process = subprocess.Popen(command, env=supervised, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = next((line for line in process.stdout if "ready" in line), None)
        assert said is not None, "it ended"
        yield process
    finally:
        process.kill()
        process.communicate()


async def listed(records: Callable[[], object], expected: object) -> None:
    await eventually(lambda: records() == expected, seconds=120)


async def test_records_that_were_taken_for_old_are_written_again(tmp_path: Path) -> None:
    """After the clock was set forward, other processes delete the records as expired."""

    def records() -> set[Path]:
        return {p for p in (tmp_path / "v1").rglob("*") if p.is_file()}

    with serving(f'{{"discovery_path": "{tmp_path}"}}') as process:
        before = records()
        assert len(before) == 2
        for record in before:
            record.unlink()
        await listed(records, before)
        assert process.poll() is None


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with etcd_server(tmp_path) as server:
        yield server


def on_etcd(etcd: Etcd, lease_seconds: int) -> str:
    return (
        f'{{"discovery": "etcd", "etcd_endpoints": "{etcd.url}", "insecure_internal": true, '
        f'"etcd_lease_seconds": {lease_seconds}}}'
    )


@pytest.mark.deployment
async def test_an_etcd_that_is_away_for_a_while_ends_nobody(etcd: Etcd) -> None:
    with serving(on_etcd(etcd, 150)) as process:
        before = etcd.keys("v1/instances")
        assert len(before) == 2
        etcd.stop()
        # Longer than Dynamo's own lease of 10 s; the test depends on this wait.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(25)
        etcd.start()
        assert etcd.keys("v1/instances") == before
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(10)


@pytest.mark.deployment
async def test_a_process_ends_if_etcd_has_lost_its_lease(etcd: Etcd, tmp_path: Path) -> None:
    """The launcher restarts it with a new lease."""
    with serving(on_etcd(etcd, 150)) as process:
        etcd.stop()
        shutil.rmtree(tmp_path / "etcd")
        etcd.start()
        assert process.wait(180) == 1
