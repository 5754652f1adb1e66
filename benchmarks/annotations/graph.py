"""The graph with pools for words and speakers, and speech for its sessions."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from typing import Any

from auricle.audio.pcm import Int16, to_int16
from auricle_testing.server import AS_DELIVERED, Server, serving
from benchmarks.harness import Run
from benchmarks.prepared import ROOT, corpus
from benchmarks.sessions import Session, run_session
from benchmarks.speech import spoken

SPEAKERS = ROOT / "models/speakers"
_PAUSES = (0.05, 0.3)  # too short to end a segment
GRAPH = "graphs.e_pd_align:Frontend"
BOTH_POOLS = "graphs.e_pd_align_diarize:Frontend"


def annotating(run: Run, *overrides: str, graph: str = GRAPH) -> AbstractContextManager[Server]:
    """Run the graph with its annotation pools, as delivered, until the block ends."""
    speakers = (f"--Common.speaker_model={SPEAKERS}",) if graph == BOTH_POOLS else ()
    aligner = f"--Common.align_model={run.arguments.aligner}"
    return serving(*AS_DELIVERED, aligner, *speakers, *overrides, graph=graph)


def speech(count: int, seconds: float, seed: int = 0) -> list[Int16]:
    """Return recordings of training voices with sentences that are not in training."""
    dice = random.Random(seed)
    some = corpus("seen")
    return [to_int16(spoken(some, dice, seconds, _PAUSES).samples) for _ in range(count)]


async def with_words(url: str, pcm: Int16, **options: Any) -> Session:
    """Run a session that requests words; `options` are passed to `Client.stream`."""
    return await run_session(url, pcm, **({"words": True} | options))
