"""The planner on the local graph: real reports, real processes.

The model does not matter to the planner. It is Gemma 4 with random weights, so that a model other
than Qwen3-ASR passes through a whole graph.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.client.stream import Event, stream_file
from auricle.config.settings import ProcessorSettings
from auricle.load.capacity_profile import CapacityProfile, PoolProfile
from auricle_testing import recordings
from auricle_testing.checkpoints.gemma import GemmaStock, random_gemma4
from auricle_testing.launcher import Launcher
from auricle_testing.server import Server, eventually, serving

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
# A decode takes more than one second of a PD worker, so one speaker needs two of them, even if the
# machine is busy and every second decode is skipped.
PROFILE = CapacityProfile(
    "any",
    "a test",
    "2026-01-01",
    encode_worker=PoolProfile({"windows": 0.001}, 5.0, 2.0),
    pd_worker=PoolProfile({"decodes": 1.4}, 5.0, 2.0),
)


@dataclass(frozen=True)
class Gemma:
    """A random checkpoint, and transformers' model with its weights."""

    path: Path
    stock: GemmaStock


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Gemma:
    path = tmp_path_factory.mktemp("model") / "gemma"
    # Every tenth token ends an answer, so that most answers are short.
    return Gemma(path, random_gemma4(path, ends=range(10, 500, 10)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gemma: Gemma) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("planner") / "profile.json"
    PROFILE.write(file)
    options = [
        f"--Common.model={gemma.path}",
        "--Planner.replicas=2",
        f"--Planner.profile={file}",
        "--Planner.step_seconds=1",
        # A process that hangs for a moment does not count as a low load.
        "--Planner.ebb_seconds=10",
        "--Planner.settle_seconds=4",
        "--Planner.pd={maximum: 2}",
        "--Common.load_report_seconds=0.5",
        "--PdWorker.engine=transformers",
        # Random weights generate up to their limit.
        "--Processor.loop_guard=false",
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
    # Two planners made the decision, one of them acted, and its log line has the reason.
    assert len(acted) == 1, json.dumps(decisions)
    assert "demand" in acted[0] and "a worker carries" in acted[0]


async def test_another_model_says_what_it_says_by_itself(server: Server, gemma: Gemma) -> None:
    """From a client's audio to its text, with the tokens of transformers' own model."""
    prompt, rules = PromptFormat(open_checkpoint(gemma.path)), ProcessorSettings()
    said = set()
    for name in ("hello", "station", "kitchen"):
        # Event times are whole milliseconds, so cut the audio to whole milliseconds.
        samples = recordings.samples(name)
        samples = samples[: len(samples) // 16 * 16]
        events = [event async for event in stream_file(server.url, samples, live=False)]
        finals = [event for event in events if event["type"] == "final"]
        assert finals
        for final in finals:
            heard = to_int16(samples)[final["start_ms"] * 16 : final["end_ms"] * 16]
            seconds = len(heard) / recordings.SAMPLE_RATE
            gemma.stock.most_tokens = max(
                int(rules.max_tokens_per_second * seconds), rules.min_new_tokens
            )
            tokens = gemma.stock.tokens(to_float(heard), prompt.head(""), prompt.tail(None))
            assert final["text"] == prompt.answer(tuple(tokens), None)[1]
            said.add(final["text"])
    assert len(said) > 1  # otherwise the audio would have no influence


async def _spoken(server: Server, samples: np.ndarray) -> list[Event]:
    return [event async for event in stream_file(server.url, samples, live=True)]
