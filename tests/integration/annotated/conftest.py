"""A graph with the optional align and diarize pools.

The aligner has random weights; the speaker model is the real one. transformers decodes the text,
because it starts in a fraction of vLLM's time: the pools do not depend on the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from auricle_testing.checkpoints.aligners import random_aligner
from auricle_testing.launcher import Launcher
from auricle_testing.server import (
    LIGHT_ENGINE,
    READY_SECONDS,
    Server,
    eventually,
    free_port,
    serving,
)

COMPONENTS = ("Processor", "EncodeWorker", "PdWorker")
BESIDE = ("AlignEncodeWorker", "AlignWorker", "DiarizeWorker")


@pytest.fixture(scope="package")
def aligner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_aligner(tmp_path_factory.mktemp("aligner"))


@pytest.fixture(scope="package")
def annotated(aligner: Path) -> Iterator[Server]:
    options = (
        f"--Common.align_model={aligner}",
        "--Common.speaker_model=models/speakers",
        *(f"--{name}.system_port={free_port()}" for name in BESIDE),
        "--Common.load_report_seconds=0.5",
        # On a busy machine a pass may take many seconds.
        "--Processor.words_deadline_seconds=60",
        "--Processor.speakers_deadline_seconds=60",
        *LIGHT_ENGINE,
    )
    with serving(*options, graph="graphs.e_pd_align_diarize:Frontend") as running:
        yield running


@pytest.fixture
async def server(annotated: Server) -> AsyncIterator[Server]:
    """The graph, after it has recovered from the test and discovery has dropped dead processes."""
    launcher = Launcher(annotated)
    yield annotated
    for component in (*COMPONENTS, *BESIDE):
        await eventually(lambda name=component: launcher.settled(name, 1), READY_SECONDS)
    await eventually(lambda: each_is_listed_once(annotated), READY_SECONDS)


def each_is_listed_once(graph: Server) -> bool:
    """Whether discovery lists no dead process: its record stays for some seconds."""
    listed = (path.name.rpartition("%2F")[0] for path in graph.discovery.rglob("*%2Falive%2F*"))
    return set(Counter(listed).values()) == {1}
