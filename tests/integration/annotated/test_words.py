"""Words of final segments: times of the real passes.

The aligner has random weights, so the times are meaningless. They equal transformers' times for the
same checkpoint, audio and words, or are reported missing.
"""

from __future__ import annotations

import asyncio
import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets
from msgspec.structs import replace

from auricle.audio.pcm import to_int16
from auricle.client import Client, Final, StreamEvent, Words
from auricle_testing import recordings
from auricle_testing.checkpoints.aligners import Reference
from auricle_testing.server import Server

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
DEADLINE_SECONDS = 120
SPEECH = to_int16(np.tile(recordings.samples("kitchen"), 2))
# One segment has all of the audio, so that the reference can use the same input.
WHOLE: dict[str, Any] = {"endpointing": {"enabled": False}}
BATCH: dict[str, Any] = {"partials": False, "words": True}


async def streamed(server: Server, source: np.ndarray, **options: Any) -> list[StreamEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in Client(server.url).stream(source, **options)]


def finals(events: list[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final) and event.text]


def words(events: list[StreamEvent]) -> dict[int, Words]:
    return {event.segment: event for event in events if isinstance(event, Words)}


def times(events: list[StreamEvent]) -> dict[int, Words]:
    """The words of each segment without their confidence, whose last digits depend on the batch."""
    return {
        segment: replace(
            found, confidence=None, words=tuple(replace(w, confidence=None) for w in found.words)
        )
        for segment, found in words(events).items()
    }


def check(final: Final, found: Words) -> None:
    """Check the words of any segment that has them."""
    sure = [word.confidence or 0.0 for word in found.words]
    assert all(0.0 < one <= 1.0 for one in sure)
    assert found.confidence == pytest.approx(np.mean(sure), abs=1e-4)
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
    # The model has more time classes than the segment has positions; times are limited to its end.
    assert given == [min(time, final.end_ms) for time in expected]


async def test_words_do_not_depend_on_what_else_is_aligned(server: Server) -> None:
    alone = times(await streamed(server, SPEECH, **BATCH))
    together = await asyncio.gather(*(streamed(server, SPEECH, **BATCH) for _ in range(3)))
    for events in together:
        assert times(events) == alone


async def test_who_does_not_ask_for_words_gets_none(server: Server) -> None:
    events = await streamed(server, SPEECH[:80_000], partials=False)
    assert finals(events) and not words(events)


async def test_deepgrams_final_results_wait_for_the_aligner_if_they_are_to(server: Server) -> None:
    """The segments equal those in our own protocol with `partials`, as Deepgram's clients use."""
    own = await streamed(server, SPEECH, words=True)
    expected = [
        (word.start_ms, word.end_ms, word.word.lower())
        for found in words(own).values()
        for word in found.words
    ]
    query = "encoding=linear16&sample_rate=16000&word_times=aligned"
    url = f"{server.url.replace('http', 'ws')}/v1/listen?{query}"
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(DEADLINE_SECONDS), websockets.connect(url) as socket:
        audio = SPEECH.astype("<i2").tobytes()
        for start in range(0, len(audio), 32_000):
            await socket.send(audio[start : start + 32_000])
        await socket.send('{"type": "CloseStream"}')
        async for message in socket:
            told += [json.loads(message)]
    alternatives = [m["channel"]["alternatives"][0] for m in told if m["type"] == "Results"]
    found = [word for alternative in alternatives for word in alternative["words"]]
    assert " ".join(a["transcript"] for a in alternatives if a["transcript"]) == " ".join(
        final.text for final in finals(own)
    )
    assert expected == [
        (round(word["start"] * 1000), round(word["end"] * 1000), word["word"]) for word in found
    ]
    assert all(0.0 < word["confidence"] <= 1.0 for word in found)


async def test_text_goes_on_when_the_align_worker_dies(server: Server) -> None:
    """Words are the same, possibly later, or are reported missing; they are never wrong."""
    before = await streamed(server, SPEECH, **BATCH)
    usual = times(before)
    worker = server.component("AlignWorker")
    events: list[StreamEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in Client(server.url).stream(SPEECH, **BATCH):
            events.append(event)
            if len(finals(events)) == 1 and worker.is_running() and not words(events):
                worker.send_signal(signal.SIGKILL)
    assert not worker.is_running()
    assert finals(events) == finals(before)
    found = times(events)
    assert found.keys() == usual.keys()
    for segment, event in found.items():
        assert event == usual[segment] or (event.missing and event.source is None)


async def test_text_goes_on_when_the_aligners_encode_worker_dies(server: Server) -> None:
    before = await streamed(server, SPEECH, **BATCH)
    usual = times(before)
    server.component("AlignEncodeWorker").send_signal(signal.SIGKILL)
    events = await streamed(server, SPEECH, **BATCH)
    assert finals(events) == finals(before)
    assert times(events).keys() == usual.keys()
    for segment, event in times(events).items():
        assert event == usual[segment] or (event.missing and event.source is None)
