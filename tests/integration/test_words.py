"""Words of final segments, on the graph with an align pool: times of the real passes.

The aligner has random weights, so times mean nothing; they are what transformers gives for the
same checkpoint, the same audio and the same words, or they are said to be missing.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auricle.audio.pcm import to_int16
from auricle.client import Client, Final, StreamEvent, Words
from tests import recordings
from tests.aligners import Reference, random_aligner
from tests.server import Server, free_port, serving

pytestmark = pytest.mark.end_to_end
DEADLINE_SECONDS = 120
SPEECH = to_int16(np.tile(recordings.samples("kitchen"), 2))
# One segment is all of the audio, so that the reference can have the same.
WHOLE: dict[str, Any] = {"endpointing": {"enabled": False}}
BATCH: dict[str, Any] = {"partials": False, "words": True}


@pytest.fixture(scope="module")
def aligner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_aligner(tmp_path_factory.mktemp("aligner"))


@pytest.fixture(scope="module")
def server(aligner: Path) -> Iterator[Server]:
    options = (
        f"--Common.align_model={aligner}",
        f"--AlignWorker.system_port={free_port()}",
        f"--AlignEncodeWorker.system_port={free_port()}",
        "--Common.load_report_seconds=0.5",
    )
    with serving(*options, graph="graphs.e_pd_align:Frontend") as running:
        yield running


async def streamed(server: Server, source: np.ndarray, **options: Any) -> list[StreamEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in Client(server.url).stream(source, **options)]


def finals(events: list[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final) and event.text]


def words(events: list[StreamEvent]) -> dict[int, Words]:
    return {event.segment: event for event in events if isinstance(event, Words)}


def check(final: Final, found: Words) -> None:
    """What holds for the words of any segment that has them."""
    assert "".join(word.text for word in found.words) == final.text
    times = [time for word in found.words for time in (word.start_ms, word.end_ms)]
    assert all(before <= after for before, after in pairwise(times))
    assert final.start_ms <= times[0] and times[-1] <= final.end_ms


async def test_each_final_is_followed_by_its_words(server: Server) -> None:
    events = await streamed(server, SPEECH, **BATCH)
    told = [type(event) for event in events if isinstance(event, Final | Words)]
    found = words(events)
    assert len(finals(events)) > 1
    assert found.keys() == {final.segment for final in finals(events)}
    for final in finals(events):
        assert (found[final.segment].source, found[final.segment].missing) == ("aligned", None)
        check(final, found[final.segment])
        assert events.index(found[final.segment]) > events.index(final)
    assert told.count(Words) == len(finals(events))


async def test_times_are_those_that_transformers_gives(
    server: Server, aligner: Path, tmp_path: Path
) -> None:
    audio = SPEECH[: 11 * 16_000]
    events = await streamed(server, audio, **BATCH, **WHOLE)
    (final,), found = finals(events), words(events)
    split = tuple(word.word for word in found[0].words)
    assert split == tuple(final.text.split())
    reference = Reference(aligner, tmp_path / "reference")
    expected = reference.times((audio / 32768).astype(np.float32), split)
    given = [time for word in found[0].words for time in (word.start_ms, word.end_ms)]
    # The model has more classes than the segment has places; beyond its end there is no time.
    assert given == [min(time, final.end_ms) for time in expected]


async def test_words_do_not_depend_on_what_else_is_aligned(server: Server) -> None:
    alone = words(await streamed(server, SPEECH, **BATCH))
    together = await asyncio.gather(*(streamed(server, SPEECH, **BATCH) for _ in range(3)))
    for events in together:
        assert words(events) == alone


async def test_who_does_not_ask_for_words_gets_none(server: Server) -> None:
    events = await streamed(server, SPEECH[:80_000], partials=False)
    assert finals(events) and not words(events)


async def test_text_goes_on_when_the_align_worker_dies(server: Server) -> None:
    """Words are as they would have been, later, or are said to be missing; never other ones."""
    before = await streamed(server, SPEECH, **BATCH)
    usual = words(before)
    worker = server.component("AlignWorker")
    events: list[StreamEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in Client(server.url).stream(SPEECH, **BATCH):
            events.append(event)
            if len(finals(events)) == 1 and worker.is_running() and not words(events):
                worker.send_signal(signal.SIGKILL)
    assert not worker.is_running()
    assert finals(events) == finals(before)
    found = words(events)
    assert found.keys() == usual.keys()
    for segment, event in found.items():
        assert event == usual[segment] or (event.missing and event.source is None)


async def test_text_goes_on_when_the_aligners_encode_worker_dies(server: Server) -> None:
    before = await streamed(server, SPEECH, **BATCH)
    usual = words(before)
    server.component("AlignEncodeWorker").send_signal(signal.SIGKILL)
    events = await streamed(server, SPEECH, **BATCH)
    assert finals(events) == finals(before)
    assert words(events).keys() == usual.keys()
    for segment, event in words(events).items():
        assert event == usual[segment] or (event.missing and event.source is None)
