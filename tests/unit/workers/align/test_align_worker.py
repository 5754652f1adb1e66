"""An align worker's requests: batched, rejected with a reason, and repaired into segment times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from auricle.annotation.alignment import monotone
from auricle.checkpoints.alignment import AlignerPrompt
from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import AlignWorkerSettings
from auricle.core.errors import BadRequest, Overloaded, ProcessFailed, WorkerUnavailable
from auricle.embeddings.fetch import Fetched
from auricle.embeddings.layout import SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotRef
from auricle.protocol.annotation import AlignRequest
from auricle.protocol.recognition import DecodeWindow
from auricle.workers.align.passes import Aligner, AlignerPass, AlignJob, aligner_for, fitting
from auricle.workers.align.scripts import prompt_for
from auricle.workers.align.utterances import Utterance
from auricle.workers.align.worker import AlignWorker, AlignWorkerMetrics
from auricle_testing.checkpoints.aligners import STEP_MS, random_aligner
from auricle_testing.checkpoints.whisper import random_whisper

pytestmark = pytest.mark.unit
LENGTH, SLOTS = 104, 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_aligner(tmp_path_factory.mktemp("aligner"))


@pytest.fixture(scope="module")
def aligner(path: Path) -> Aligner:
    return aligner_for(open_checkpoint(path), "float32", "cpu", threads=1)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whisper")
    random_whisper(path)
    return path


def key(number: int) -> str:
    return f"{number:032x}" + tenant_mark("t")


def window(number: int, length: int = LENGTH) -> DecodeWindow:
    return DecodeWindow(key(number), length, partial=False)


class Fetcher:
    """Has every window in the slot with its number; can be held back."""

    def __init__(self) -> None:
        self.given_back: list[DecodeWindow] = []
        self.pins = 0
        self.asked = asyncio.Event()

    def give_back(self, windows: Sequence[DecodeWindow]) -> None:
        self.given_back += windows

    @asynccontextmanager
    async def pinned(self, windows: Sequence[DecodeWindow]) -> AsyncIterator[Fetched]:
        self.pins += 1
        self.asked.set()
        try:
            placed = [SlotRef(w.key, int(w.key[:32], 16), 1, w.length) for w in windows]
            yield Fetched(tuple(placed), 1000)
        finally:
            self.pins -= 1


class Bench:
    """A worker over a slab of random embeddings."""

    def __init__(self, path: Path, aligner: Aligner, **settings: int) -> None:
        draw = np.random.default_rng(0)
        geometry = open_checkpoint(path).geometry
        width, length = geometry.hidden_size, geometry.window_embeddings
        self.slab = HostSlab.private(SlabLayout(width, 4, length), SLOTS)
        self.rows = draw.standard_normal((SLOTS, length, width)).astype(np.float32)
        for slot, rows in enumerate(self.rows):
            self.slab.write(slot, key(slot), 1, rows.view(np.uint8).reshape(-1))
        configured = AlignWorkerSettings(align_model=path, **settings)  # type: ignore[arg-type]
        self.fetcher = Fetcher()
        self.registry = CollectorRegistry()
        self.prompt = prompt_for(open_checkpoint(path))
        self.passes = AlignerPass(aligner, self.slab, torch.float32, configured.max_batch_tokens)
        self.worker = AlignWorker(
            configured,
            self.prompt,
            self.fetcher,  # type: ignore[arg-type]
            aligner,
            self.passes,
            AlignWorkerMetrics(self.registry),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.worker.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            self.worker.device.close()

    def count(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"auricle_align_worker_{name}")


def request(*windows: DecodeWindow, words: tuple[str, ...] = ("red", "apple")) -> AlignRequest:
    return AlignRequest("s", "t", windows or (window(1),), words, 8_000)


async def test_times_are_those_of_the_models_classes(path: Path, aligner: Aligner) -> None:
    bench = Bench(path, aligner)
    words = ("red", "apple", "market", "seven")
    async with bench.running():
        reply = await bench.worker.align(request(window(1), window(2, 40), words=words))
    audio = torch.from_numpy(np.concatenate([bench.rows[1], bench.rows[2][:40]]))
    (classes,) = aligner.marks(
        [Utterance(audio, AlignerPrompt(open_checkpoint(path)).after_audio(words))]
    )
    expected = [min(time, 8_000) for time in monotone([STEP_MS * one for one in classes])]
    assert list(reply.times_ms) == expected
    assert len(expected) == 8 and reply.embedding_bytes_read == 1000
    assert (bench.count("words_total"), bench.count("segments_total")) == (4, 1)


async def test_segments_that_wait_together_are_one_batch(path: Path, aligner: Aligner) -> None:
    bench = Bench(path, aligner)
    asked = [request(window(n), words=("red",) * (n + 1)) for n in range(4)]
    alone = []
    async with bench.running():
        for one in asked:
            alone.append(await bench.worker.align(one))
        together = await asyncio.gather(*map(bench.worker.align, asked))
    assert [one.times_ms for one in together] == [one.times_ms for one in alone]
    assert bench.count("batch_segments_count") == 4 + 1
    assert bench.fetcher.pins == 0


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"windows": ()}, "at least one window"),
        ({"words": ()}, "words that are not empty"),
        ({"words": ("red", "")}, "words that are not empty"),
        ({"audio_ms": -1}, "audio_ms is -1"),
        ({"words": ("red",) * 100}, "exceed AlignWorker.max_tokens 256"),
        ({"windows": (DecodeWindow("ab" * 24, 1, False),)}, "not one of the request's tenant"),
    ],
)
async def test_a_request_that_cannot_be_aligned_is_refused(
    path: Path, aligner: Aligner, changed: dict[str, object], named: str
) -> None:
    bench = Bench(path, aligner, max_tokens=256)
    asked = replace(request(), **changed)
    async with bench.running():
        with pytest.raises(BadRequest, match=named):
            await bench.worker.align(asked)
        assert bench.fetcher.given_back == list(asked.windows)
        assert (await bench.worker.align(request())).times_ms


async def test_a_full_worker_refuses_and_recordings_leave_room(
    path: Path, aligner: Aligner
) -> None:
    bench = Bench(path, aligner, max_requests=2)
    held = asyncio.create_task(bench.worker.align(request()))  # no batches run yet
    await bench.fetcher.asked.wait()
    bench.fetcher.asked.clear()
    with pytest.raises(Overloaded, match="1 of 2 places"):
        await bench.worker.align(replace(request(), background=True))
    also = asyncio.create_task(bench.worker.align(request()))
    await bench.fetcher.asked.wait()
    with pytest.raises(Overloaded, match="2 of 2 places"):
        await bench.worker.align(request())
    async with bench.running():
        await asyncio.gather(held, also)


async def test_a_broken_slot_fails_its_own_request_only(path: Path, aligner: Aligner) -> None:
    bench = Bench(path, aligner)
    broken = np.full_like(bench.rows[3], np.nan)
    bench.slab.write(3, key(3), 1, broken.view(np.uint8).reshape(-1))
    async with bench.running():
        good, bad = await asyncio.gather(
            bench.worker.align(request(window(1))),
            bench.worker.align(request(window(3))),
            return_exceptions=True,
        )
    assert not isinstance(good, BaseException)
    assert isinstance(bad, ArithmeticError)


async def test_an_aligner_that_fails_on_silence_too_ends_the_process(
    path: Path, aligner: Aligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(path, aligner)

    def lost(_utterances: object) -> list[list[int]]:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(aligner, "marks", lost)
    running = asyncio.create_task(bench.worker.run())
    with pytest.raises(WorkerUnavailable, match="being replaced"):
        await bench.worker.align(request())
    with pytest.raises(ProcessFailed, match="fails on silence too"):
        await running
    bench.worker.device.close()


def spoken(*windows: DecodeWindow) -> AlignRequest:
    """A request to a decoder that attends to audio: 5 s before 25 s of silence."""
    words, texts = ("Red", "apple"), ("Red, ", "apple.")
    given = windows or (window(1, 300), window(2, 1500))
    return AlignRequest("s", "t", given, words, 5_000, texts=texts, language="English")


async def test_whispers_decoder_aligns_a_segment_before_silence(whisper: Path) -> None:
    aligner = aligner_for(open_checkpoint(whisper), "float32", "cpu", threads=1)
    bench = Bench(whisper, aligner, max_tokens=448)
    async with bench.running():
        reply, other = await asyncio.gather(
            bench.worker.align(spoken()), bench.worker.align(spoken(window(3, 1500)))
        )
    audio = torch.from_numpy(np.concatenate([bench.rows[1][:300], bench.rows[2][300:]]))
    script = bench.prompt.script(spoken())
    (marks,) = aligner.marks([Utterance(audio, script.ids, script.lead, 5_000)])
    assert list(reply.times_ms) == script.times_ms(marks)
    assert len(reply.times_ms) == 4 and max(reply.times_ms) <= 5_000
    assert other.times_ms != reply.times_ms
    assert bench.count("batch_segments_sum") == 2


async def test_a_text_that_whisper_cannot_read_is_refused(whisper: Path) -> None:
    aligner = aligner_for(open_checkpoint(whisper), "float32", "cpu", threads=1)
    bench = Bench(whisper, aligner, max_tokens=448)
    long = replace(spoken(), words=("red",) * 500, texts=("red ",) * 500)
    async with bench.running():
        for asked, named in (
            (long, "exceed AlignWorker.max_tokens 448"),
            (replace(spoken(), language=""), "the language"),
            (replace(spoken(), language="Klingon"), "not supported"),
            (replace(spoken(), texts=()), "0 texts for 2 words"),
        ):
            with pytest.raises(BadRequest, match=named):
                await bench.worker.align(asked)


def test_passes_are_filled_up_no_further_than_allowed() -> None:
    lengths = [100, 900, 110, 120, 2000, 90]
    passes = list(fitting(lengths, 1000))
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    for rows in passes:
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= 1000
    assert passes[0] == [5, 0, 2, 3]


def test_a_jobs_tokens_are_those_of_its_prompt() -> None:
    placed = (SlotRef(key(1), 1, 1, 104), SlotRef(key(2), 2, 1, 6))
    assert AlignJob(placed, (1, 2, 3)).tokens == 1 + 110 + 3
