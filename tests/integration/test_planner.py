"""The planner on the local graph: real reports, real processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from auricle.client.stream import Event, stream_file
from auricle.load.capacity_profile import CapacityProfile, PoolProfile
from tests import recordings
from tests.launcher import Launcher
from tests.server import LIGHT_ENGINE, Server, eventually, serving

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
# A decode takes more of a PD worker than a second: somebody who speaks needs two of them, even
# if the machine is so busy that every second decode is left out.
PROFILE = CapacityProfile(
    "any",
    "a test",
    "2026-01-01",
    encode_worker=PoolProfile({"windows": 0.001}, 5.0, 2.0),
    pd_worker=PoolProfile({"decodes": 1.4}, 5.0, 2.0),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    file = tmp_path / "profile.json"
    PROFILE.write(file)
    options = [
        "--Planner.replicas=2",
        f"--Planner.profile={file}",
        "--Planner.step_seconds=1",
        # A moment in which a process hangs is no ebb.
        "--Planner.ebb_seconds=10",
        "--Planner.settle_seconds=4",
        "--Planner.pd={maximum: 2}",
        "--Common.load_report_seconds=0.5",
        *LIGHT_ENGINE,
    ]
    with serving(*options) as running:
        yield running


async def test_a_pool_grows_while_somebody_speaks_and_shrinks_when_it_is_quiet(
    server: Server,
) -> None:
    launcher = Launcher(server)
    assert launcher.ready("PdWorker") == 1
    speech = np.tile(recordings.samples("kitchen"), 3)
    session = asyncio.create_task(_spoken(server, speech))
    await eventually(lambda: launcher.replicas("PdWorker") == 2, seconds=60)
    events = await session
    assert events[-1]["type"] == "done"
    await eventually(lambda: launcher.replicas("PdWorker") == 1, seconds=120)
    assert launcher.replicas("EncodeWorker") == 1
    decisions = [line for line in server.log if "pd_worker: 1 → 2" in line]
    acted = [line for line in decisions if "another planner decides" not in line]
    # Two planners saw it, one of them acted, and it says why.
    assert len(acted) == 1, json.dumps(decisions)
    assert "demand" in acted[0] and "a worker carries" in acted[0]


async def _spoken(server: Server, samples: np.ndarray) -> list[Event]:
    return [event async for event in stream_file(server.url, samples, live=True)]
