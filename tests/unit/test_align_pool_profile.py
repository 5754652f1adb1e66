"""How much speech a worker of the align pool is found to carry, on workers that are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from auricle.checkpoint.files import open_checkpoint
from auricle.load.reports import WorkerLoad
from auricle.messages import AlignReply, AlignRequest, EncodeReply, EncodeRequest, WindowRef
from auricle.profiling.align_pool import HALVES, AlignRamp
from auricle.profiling.cast import Stage
from auricle.settings import ProcessorSettings
from tests.aligners import random_aligner
from tests.server import ROOT

pytestmark = pytest.mark.unit
# What a request takes with one at a time; each further one at a time adds as much.
ALONE = {"align_encode_worker": 0.05, "align_worker": 0.15}


class Worker:
    """One instance, which reports after each request a response time that grows with its load."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.requests: list[object] = []
        self.in_flight = 0
        self.heard: Callable[[WorkerLoad], None] = lambda _load: None

    async def wait_for_instances(self, _seconds: float) -> None:
        pass

    async def usable(self, _seconds: float, _avoid: Iterable[int] = ()) -> list[int]:
        return [1]

    def suspected(self, _instance: int) -> bool:
        return False

    async def call(self, message: object, _reply: object, _instance: int, _seconds: float) -> Any:
        self.requests.append(message)
        self.in_flight += 1
        await asyncio.sleep(0.01)  # longer than it takes to make a request
        response = ALONE[self.kind] * self.in_flight
        self.in_flight -= 1
        load = (0.01, {}, 1.0, 10.0, 0.0, response, 0.0, 1.0, 64)
        self.heard(WorkerLoad(cast(Any, self.kind), 1, *load))
        if isinstance(message, EncodeRequest):
            refs = tuple(
                WindowRef(w.key, "f", "float32", 1, "a", b"", 0, 1, 0, "", 0, 7, 3, 1)
                for w in message.windows
            )
            return EncodeReply(refs, len(refs))
        assert isinstance(message, AlignRequest)
        return AlignReply(tuple(range(2 * len(message.words))))


class Graph:
    def __init__(self) -> None:
        self.workers = {kind: Worker(kind) for kind in HALVES}

    def client(self, kind: str, _endpoint: str) -> Worker:
        return self.workers[cast(Any, kind)]

    def subscribe(self, kind: str, _topic: str, _type: type, heard: Any) -> None:
        self.workers[cast(Any, kind)].heard = heard


async def test_each_half_is_taken_to_its_own_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("auricle.profiling.align_pool._LEVEL_SECONDS", 0.3)
    settings = SimpleNamespace(**dict(ProcessorSettings()) | {"load_report_seconds": 0.05})
    noise = np.random.default_rng(1).integers(-3000, 3000, 160_000).astype(np.int16)
    demo, graph, lines = open_checkpoint(ROOT / "models/demo"), Graph(), list[str]()
    aligner = open_checkpoint(random_aligner(tmp_path / "aligner"))
    stage = Stage(cast(ProcessorSettings, settings), demo, [noise])
    async with asyncio.timeout(60):
        found = await AlignRamp(cast(Any, graph), stage, aligner, lines.append).carried()
    limits = {kind: limit for kind, (_, limit) in found.items()}
    assert limits == pytest.approx({"align_encode_worker": 0.25, "align_worker": 0.75})
    assert all(carried > 0 for carried, _ in found.values())
    assert any("align_encode_worker: 2 segments at a time" in line for line in lines)
    asked = [m for m in graph.workers["align_worker"].requests if isinstance(m, AlignRequest)]
    assert len({request.session for request in asked}) >= 4
