"""For any chunking of a client's audio, the text at the same decode offsets is the same."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.protocol.recognition import DecodeRequest
from auricle.protocol.sessions import SegmentFinal, SegmentPartial, SessionDone
from tests.fakes.workers import GRID, ScriptedWorkers, session

pytestmark = pytest.mark.unit
SAMPLES = 3 * GRID + 1_000


def said(request: DecodeRequest) -> str:
    """Words that depend on every window's key, and so on every bit of its features."""
    keys = "".join(window.key for window in request.windows)
    number = int(hashlib.blake2b(keys.encode()).hexdigest(), 16)
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    return "language English<asr_text>" + " ".join(words[number >> 3 * i & 7] for i in range(12))


@st.composite
def audio(draw: st.DrawFn) -> np.ndarray:
    """Noise, silence, clipping, a loud end after a quiet start."""
    noise = np.random.default_rng(draw(st.integers(0, 9))).standard_normal(SAMPLES)
    kind = draw(st.sampled_from(["noise", "silence", "clipped", "loud end"]))
    level = {"noise": 0.1, "silence": 0.0, "clipped": 4.0, "loud end": 0.001}[kind]
    if kind == "loud end":
        noise[-SAMPLES // 4 :] *= 900
    return np.clip(noise * level * 32768, -32768, 32767).astype("<i2")


async def run(pcm: np.ndarray, packets: list[int]) -> list[tuple[str, int, str]]:
    """Every event's kind, offset and text; each grid point is decoded."""
    subject = session(ScriptedWorkers(said))
    events = subject.events()
    await anext(events)
    got, at = [], 0
    sizes = iter(packets)
    while at < len(pcm):
        # Never beyond a grid point, so that none is skipped.
        size = min(next(sizes, GRID), GRID - at % GRID, len(pcm) - at)
        await subject.push(at, pcm[at : at + size].tobytes(), 1.0)
        at += size
        if at % GRID == 0:
            event = await anext(events)
            assert isinstance(event, SegmentPartial)
            got.append(("partial", event.audio_ms, event.committed + event.partial))
    subject.end(len(pcm))
    final, done = [event async for event in events]
    assert isinstance(final, SegmentFinal)
    assert isinstance(done, SessionDone)
    return [*got, ("final", final.end_ms, final.text)]


@settings(max_examples=25, deadline=None)
@given(audio(), st.lists(st.one_of(st.just(1), st.integers(1, 4_000)), max_size=80))
def test_packets_do_not_show_in_the_text(pcm: np.ndarray, packets: list[int]) -> None:
    assert asyncio.run(run(pcm, packets)) == asyncio.run(run(pcm, []))
