"""The measured capacity of annotation workers, with fake workers of known response times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError
from auricle.load.pools import OPTIONAL_POOLS
from auricle.load.reports import PoolKind, WorkerLoad
from auricle.protocol.annotation import (
    AlignReply,
    AlignRequest,
    DiarizeReply,
    DiarizeRequest,
    TranslateReply,
    TranslateRequest,
)
from auricle.protocol.recognition import EncodeReply, EncodeRequest, WindowRef
from auricle.tools.load_generation.speakers import LoadInput, SpokenText
from auricle.tools.profiling import annotation_pools
from auricle.tools.profiling.annotation_load import (
    AnnotationRamp,
    Answered,
    DiarizeWorkload,
    Workload,
)
from auricle.tools.profiling.annotation_pools import AlignWorkload, TranslateWorkload
from auricle_testing.checkpoints.aligners import random_aligner
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
# The reported response time of one request at a time; each concurrent one adds as much.
ALONE = {
    "align_encode_worker": 0.05,
    "align_worker": 0.15,
    "diarize_worker": 0.3,
    "translate_worker": 0.2,
}


# The load of an idle worker.
NOTHING = (0.02, {}, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 64)


class Worker:
    """One instance.

    Its reported response time grows with the number of concurrent segments.
    """

    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph, self.kind = graph, kind
        self.requests: list[object] = []
        self.eighth = asyncio.Event()  # set after eight requests
        self.seconds = 0.02  # of each request
        self.most = 256  # concurrent segments; with more it answers none
        self.heard: Callable[[WorkerLoad], None] = lambda _load: None

    async def wait_for_instances(self, _seconds: float) -> None:
        pass

    async def usable(self, _seconds: float, _avoid: Iterable[int] = ()) -> list[int]:
        return [1]

    def suspected(self, _instance: int) -> bool:
        return False

    async def call(self, message: object, _reply: object, _instance: int, _seconds: float) -> Any:
        self.requests.append(message)
        if len(self.requests) == 8:
            self.eighth.set()
        while self.graph.at_once > self.most:
            for worker in self.graph.workers.values():
                worker.heard(WorkerLoad(cast(Any, worker.kind), 1, *NOTHING))
            await asyncio.sleep(0.02)
        await asyncio.sleep(self.seconds)
        response = ALONE[self.kind] * self.graph.at_once
        load = (0.01, {}, 1.0, 10.0, 0.0, response, 0.0, 1.0, 64)
        self.heard(WorkerLoad(cast(Any, self.kind), 1, *load))
        if isinstance(message, EncodeRequest):
            refs = tuple(
                WindowRef(w.key, "f", "float32", 1, "a", b"", 0, 1, 0, "", 0, 7, 3, 1)
                for w in message.windows
            )
            return EncodeReply(refs, len(refs))
        if isinstance(message, DiarizeRequest):
            return DiarizeReply((), message.state + b"+")
        if isinstance(message, TranslateRequest):
            new = message.source.upper().split()[len(message.answer.split()) :]
            return TranslateReply("".join(f" {word}" for word in new), "stop")
        assert isinstance(message, AlignRequest)
        return AlignReply(tuple(range(2 * len(message.words))))


class Graph:
    def __init__(self) -> None:
        self.workers = {kind: Worker(self, kind) for kind in ALONE}
        self.at_once = 0  # concurrent segments

    def client(self, kind: str, _endpoint: str) -> Worker:
        return self.workers[cast(Any, kind)]

    def subscribe(self, kind: str, _topic: str, _type: type, heard: Any) -> None:
        self.workers[cast(Any, kind)].heard = heard


class Counted:
    """A workload whose concurrent runs its graph counts."""

    def __init__(self, graph: Graph, workload: Workload) -> None:
        self.graph, self.workload = graph, workload
        self.kinds, self.ready = workload.kinds, workload.ready

    async def run(self, kind: PoolKind | None, answered: Answered) -> None:
        self.graph.at_once += 1
        try:
            await self.workload.run(kind, answered)
        finally:
            self.graph.at_once -= 1


@pytest.fixture(autouse=True)
def _short_levels_and_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle.tools.profiling.annotation_load._LEVEL_SECONDS", 0.1)
    monkeypatch.setattr("auricle.tools.profiling.annotation_pools.SEGMENT_SECONDS", 1.0)


@pytest.fixture
def source() -> LoadInput:
    settings = SimpleNamespace(**dict(ProcessorSettings()) | {"load_report_seconds": 0.02})
    noise = np.random.default_rng(1).integers(-3000, 3000, 160_000).astype(np.int16)
    demo = open_checkpoint(ROOT / "models/demo")
    return LoadInput(cast(ProcessorSettings, settings), demo, [noise])


async def carried(
    graph: Graph, source: LoadInput, workload: Workload
) -> tuple[dict[str, float], list[str]]:
    """Return the limits of the pools, which all have a capacity, and the logged lines."""
    lines: list[str] = []
    counted, interval = Counted(graph, workload), source.settings.load_report_seconds
    ramp = AnnotationRamp(cast(Any, graph), interval, counted, lines.append)
    async with asyncio.timeout(60):
        found = await ramp.carried()
    assert all(at > 0 for at, _ in found.values())
    return {kind: limit for kind, (_, limit) in found.items()}, lines


async def test_each_half_is_taken_to_its_own_part_of_the_time(
    source: LoadInput, tmp_path: Path
) -> None:
    graph = Graph()
    aligner = open_checkpoint(random_aligner(tmp_path / "aligner"))
    limits, lines = await carried(graph, source, AlignWorkload(cast(Any, graph), source, aligner))
    assert limits == pytest.approx({"align_encode_worker": 0.25, "align_worker": 0.75})
    assert any("align_encode_worker: 2 segments at a time" in line for line in lines)
    asked = [m for m in graph.workers["align_worker"].requests if isinstance(m, AlignRequest)]
    assert len({request.session for request in asked}) >= 4


async def test_a_diarize_worker_is_asked_by_sessions_that_keep_their_voices(
    source: LoadInput,
) -> None:
    graph = Graph()
    limits, lines = await carried(graph, source, DiarizeWorkload(cast(Any, graph), source))
    assert limits == pytest.approx({"diarize_worker": 1.0})
    assert any("diarize_worker: 4 segments at a time" in line for line in lines)
    asked = [m for m in graph.workers["diarize_worker"].requests if isinstance(m, DiarizeRequest)]
    first = [request for request in asked if request.session == asked[0].session]
    assert [request.state for request in first] == [b"+" * n for n in range(len(first))]
    assert {len(request.pcm) for request in asked} == {2 * 8 * 16_000}


async def test_a_machine_that_is_slow_alone_is_measured_too(
    source: LoadInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ALONE, "diarize_worker", 3.0)
    graph = Graph()
    limits, _ = await carried(graph, source, DiarizeWorkload(cast(Any, graph), source))
    assert limits == pytest.approx({"diarize_worker": 6.0})


async def test_a_level_lasts_until_a_request_has_ended(source: LoadInput) -> None:
    graph = Graph()
    graph.workers["diarize_worker"].seconds = 0.3
    limits, lines = await carried(graph, source, DiarizeWorkload(cast(Any, graph), source))
    assert limits == pytest.approx({"diarize_worker": 1.0})
    assert any("diarize_worker: 4 segments at a time" in line for line in lines)


@pytest.mark.parametrize("silent", ["align_encode_worker", "align_worker"])
async def test_workers_that_answer_nothing_are_named(
    source: LoadInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr("auricle.tools.profiling.annotation_load._READY_SECONDS", 2.0)
    graph = Graph()
    graph.workers[silent].most = 0
    aligner = open_checkpoint(random_aligner(tmp_path / "aligner"))
    workload = AlignWorkload(cast(Any, graph), source, aligner)
    with pytest.raises(AuricleError, match=rf"{silent}.* answered nothing within 2 s"):
        await carried(graph, source, workload)


async def test_a_worker_that_falls_silent_under_load_is_named(
    source: LoadInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.tools.profiling.annotation_load._READY_SECONDS", 2.0)
    graph = Graph()
    graph.workers["diarize_worker"].most = 1
    workload = DiarizeWorkload(cast(Any, graph), source)
    with pytest.raises(AuricleError, match=r"^diarize_worker answered nothing within 2 s"):
        await carried(graph, source, workload)


async def test_a_translate_worker_is_asked_by_sessions_with_text(source: LoadInput) -> None:
    graph = Graph()
    utterances = [SpokenText("a red boat lies in the harbour", "English", 3.2)]
    workload = TranslateWorkload(cast(Any, graph), source.settings, utterances, ("en", "de"))
    limits, lines = await carried(graph, source, workload)
    assert limits == pytest.approx({"translate_worker": 1.0})
    assert any("translate_worker: 4 segments at a time" in line for line in lines)


async def test_text_is_translated_as_it_grows_and_each_segment_goes_on_after_the_last(
    source: LoadInput,
) -> None:
    graph = Graph()
    worker = graph.workers["translate_worker"]
    utterances = [SpokenText("a red boat lies in the harbour", "English", 3.2)]
    workload = TranslateWorkload(cast(Any, graph), source.settings, utterances, ("en", "de"))
    session = asyncio.create_task(workload.run(None, lambda _seconds: None))
    async with asyncio.timeout(60):
        await worker.eighth.wait()
    await cancelled([session])
    first = [m for m in worker.requests if isinstance(m, TranslateRequest)]
    assert {(request.source_language, request.target) for request in first} == {("en", "de")}
    end = [request.whole for request in first].index(True)
    assert (
        first[end].source == utterances[0].text and first[end].answer
    )  # part of it was translated before
    assert all(b.source.startswith(a.source) for a, b in pairwise(first[: end + 1]))
    assert 2 <= end <= 5  # a request for each chunk with new words
    assert first[end + 1].context == ((utterances[0].text, utterances[0].text.upper()),)


async def test_what_is_in_the_target_language_is_not_counted_as_translated(
    source: LoadInput,
) -> None:
    graph = Graph()
    utterances = [
        SpokenText("a red boat", "English", 3.2),
        SpokenText("ein rotes Boot", "German", 1000.0),
    ]
    workload = TranslateWorkload(cast(Any, graph), source.settings, utterances, ("de",))
    answered: list[float] = []
    session = asyncio.create_task(workload.run(None, answered.append))
    async with asyncio.timeout(60):
        await graph.workers["translate_worker"].eighth.wait()
    await cancelled([session])
    assert 8 <= len(answered) + 1 < 50


@pytest.mark.parametrize(
    ("utterances", "targets", "message"),
    [
        ([SpokenText("", "", 3.0)], (), "nothing was recognised in the recordings"),
        ([SpokenText("una barca", "Spanish", 3.0)], ("es",), "are in Spanish, into which alone"),
    ],
)
def test_recordings_that_cannot_be_translated_are_said_so(
    source: LoadInput, utterances: list[SpokenText], targets: tuple[str, ...], message: str
) -> None:
    with pytest.raises(AuricleError, match=message):
        TranslateWorkload(cast(Any, Graph()), source.settings, utterances, targets)


async def test_each_pool_that_has_a_model_is_asked(
    source: LoadInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def transcribed(_runtime: object, _source: LoadInput) -> list[SpokenText]:
        return [SpokenText("a red boat", "English", 3.0)]

    monkeypatch.setattr(annotation_pools, "_transcribed", transcribed)
    settings: Any = source.settings
    assert await annotation_pools.workloads(cast(Any, Graph()), source) == []
    settings.align_model = ROOT / "models/demo-aligner"
    settings.speaker_model = ROOT / "models/speakers"
    settings.translate_model = ROOT / "models/demo-translate"
    found = await annotation_pools.workloads(cast(Any, Graph()), source)
    assert [kind for workload in found for kind in workload.kinds] == [
        pool.kind for pool in OPTIONAL_POOLS
    ]
    settings.translate_targets = ("en",)
    with pytest.raises(AuricleError, match=r"or add to Common\.translate_targets"):
        await annotation_pools.workloads(cast(Any, Graph()), source)
