"""The align pool alone, with real processes, NIXL and deaths: times equal transformers'."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import DeadlineExceeded, WorkerUnavailable
from auricle.dynamo import WORKER_PULSE, Runtime
from auricle.processor.annotators.words import FinalSegment, WordAligner
from auricle.processor.pools import EncodePool, Pool
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle_testing import recordings
from auricle_testing.checkpoints.aligners import Reference, random_aligner
from auricle_testing.server import ROOT
from tests.integration.aligning import START_SECONDS, Start, starting

pytestmark = [pytest.mark.integration, pytest.mark.deployment]
DECODER = open_checkpoint(ROOT / "models/demo")
SPEECH = to_int16(np.tile(recordings.samples("kitchen"), 2))
WORDS = ("ten", "red", "apples", "market", "on", "a", "monday", "morning")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_aligner(tmp_path_factory.mktemp("aligner"))


@pytest.fixture(scope="module")
def discovery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("discovery")


@pytest.fixture(scope="module")
def start(path: Path, discovery: Path) -> Iterator[Start]:
    with starting(path, discovery) as start:
        yield start


@pytest.fixture(scope="module")
def reference(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(path, tmp_path_factory.mktemp("reference") / "aligner")


@pytest.fixture(scope="module")
def pool(start: Start) -> dict[str, subprocess.Popen[bytes]]:
    """The processes, by component; a test that ends one starts another."""
    return {name: start(name) for name in ("AlignEncodeWorker", "AlignWorker")}


@pytest.fixture
async def runtime(path: Path, discovery: Path) -> AsyncIterator[Runtime]:
    runtime = Runtime(ProcessorSettings(align_model=path, discovery_path=discovery))
    yield runtime
    runtime.close()


async def connected(runtime: Runtime, path: Path, deadline_seconds: float = 60.0) -> WordAligner:
    encode = runtime.client("align_encode_worker", "generate")
    align = runtime.client("align_worker", "generate")
    pulses = runtime.pulses("align_worker", align, WORKER_PULSE)
    encode_pool = EncodePool(encode, deadline_seconds, 1)
    pool = Pool(align, deadline_seconds, 4, pulses)
    await encode_pool.ready(START_SECONDS)
    await pool.ready(START_SECONDS)
    return WordAligner(open_checkpoint(path), "float32", encode_pool, pool)


def spoken(samples: int, words: tuple[str, ...], tenant: str = "t") -> FinalSegment:
    """A final segment of a session; its log-mel was computed for the decoder's windows."""
    scheme = KeyScheme(DECODER.fingerprint, "float32", tenant)
    audio = SegmentAudio(DECODER.geometry, scheme)
    audio.push(SPEECH)
    audio.windows(samples)
    return FinalSegment("s", tenant, audio, samples, samples // 16, words, False, "")


def expected(reference: Reference, samples: int, words: tuple[str, ...]) -> tuple[int, ...]:
    times = reference.times(to_float(SPEECH[:samples]), words)
    return tuple(min(time, samples // 16) for time in times)


@pytest.mark.usefixtures("pool")
async def test_times_are_those_of_transformers_alone_and_together(
    runtime: Runtime, path: Path, reference: Reference
) -> None:
    aligner = await connected(runtime, path)
    asked = [(8_000 * (3 + 5 * n) + 17 * n, WORDS[: 1 + 2 * n]) for n in range(4)]
    alone = [await aligner.times(spoken(*one), 60.0) for one in asked]
    assert alone == [expected(reference, *one) for one in asked]
    together = await asyncio.gather(
        *(aligner.times(spoken(*one, tenant="other"), 60.0) for one in asked * 3)
    )
    assert together == alone * 3


async def test_a_dead_worker_is_named_and_another_one_gives_the_same_times(
    pool: dict[str, subprocess.Popen[bytes]],
    start: Start,
    runtime: Runtime,
    path: Path,
    reference: Reference,
) -> None:
    aligner = await connected(runtime, path)
    hurried = await connected(runtime, path, deadline_seconds=4.0)
    samples = 8 * 16_000
    right = expected(reference, samples, WORDS)
    for name in ("AlignEncodeWorker", "AlignWorker"):
        assert await aligner.times(spoken(samples, WORDS), 60.0) == right
        pool[name].send_signal(signal.SIGKILL)
        pool[name].wait()
        # Embeddings that no worker has yet: another tenant's keys differ.
        lost = spoken(samples, WORDS, tenant=f"after {name}")
        with pytest.raises(WorkerUnavailable):
            await hurried.times(lost, 20.0)
        pool[name] = start(name)
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    assert await aligner.times(lost, 20.0) == right
                    break
                except (WorkerUnavailable, DeadlineExceeded):
                    continue  # it is still starting
