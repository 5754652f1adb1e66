"""How the GPU benchmark finds the most streams that pools carry, and the work it measures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from auricle.checkpoint.files import open_checkpoint
from auricle.encode_worker.encoder import Encoder
from benchmarks.gpu import attention
from benchmarks.gpu.heard import Chunk, Chunks, Heard, Trial
from benchmarks.gpu.knee import most_carried
from benchmarks.gpu.passes import Passes, live_work
from benchmarks.gpu.speaker import CHUNK, Speech
from tests.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"


@pytest.mark.parametrize("capacity", [1, 3, 60, 128, 700, 2047])
@pytest.mark.parametrize("first", [1, 128])
def test_the_knee_is_found_to_the_resolution(capacity: int, first: int) -> None:
    tried: list[int] = []

    def carried(streams: int) -> bool:
        tried.append(streams)
        return streams <= capacity

    found = most_carried(carried, first, most=4096, resolution=0.1)
    assert found <= capacity <= found + max(1, 0.1 * found)
    assert len(tried) == len(set(tried)) <= 16


def test_nothing_is_carried_and_everything_is() -> None:
    assert most_carried(lambda _: False, 8, most=64, resolution=0.1) == 0
    assert most_carried(lambda _: True, 8, most=100, resolution=0.1) == 100


def test_without_time_for_another_trial_what_is_known_is_the_answer() -> None:
    times = iter([True, True, False])
    found = most_carried(lambda _: True, 8, most=64, resolution=0.1, time_left=lambda: next(times))
    assert found == 16


def pushed(heard: Heard, *chunks: Chunk) -> Chunks:
    session = Chunks(heard)
    for chunk in chunks:
        session.pushed(chunk, chunk.due)
    return session


def milliseconds(chunks: int) -> int:
    return 640 * chunks


def test_a_chunk_lags_until_the_first_text_that_covers_it() -> None:
    heard = Heard(0.0, 10.0)
    session = pushed(heard, Chunk(CHUNK, 1.0, last=False), Chunk(2 * CHUNK, 1.64, last=False))
    session.text(milliseconds(1), 1.2)
    session.text(milliseconds(2), 1.74)
    assert heard.lags == pytest.approx([0.2, 0.1])
    assert (heard.chunks, heard.texts) == (2, 2)


def test_a_chunk_whose_grid_point_was_skipped_waits_for_the_next_text() -> None:
    heard = Heard(0.0, 10.0)
    session = pushed(heard, Chunk(CHUNK, 1.0, last=False), Chunk(2 * CHUNK, 1.64, last=False))
    session.text(milliseconds(2), 1.84)
    assert heard.lags == pytest.approx([0.84, 0.2])
    assert (heard.chunks, heard.texts) == (2, 1)


def test_the_end_of_a_segment_counts_apart() -> None:
    heard = Heard(0.0, 10.0)
    session = pushed(heard, Chunk(CHUNK, 1.0, last=False), Chunk(CHUNK + 1001, 1.1, last=True))
    session.text((CHUNK + 1001) // 16, 1.5)  # rounded down, as final texts say it
    assert heard.lags == pytest.approx([0.5])
    assert heard.finals == pytest.approx([0.4])


def test_what_was_due_at_another_time_does_not_count() -> None:
    heard = Heard(1.0, 2.0)
    session = pushed(heard, Chunk(CHUNK, 0.9, last=False), Chunk(2 * CHUNK, 2.0, last=False))
    session.text(milliseconds(2), 2.5)
    assert (heard.chunks, heard.texts, heard.lags) == (0, 0, [])


def test_a_chunk_without_text_at_the_end_is_at_least_so_late() -> None:
    heard = Heard(0.0, 10.0)
    pushed(heard, Chunk(CHUNK, 1.0, last=False)).over(4.0)
    assert heard.lags == [3.0]
    assert heard.texts == 0


def trial(**told: Any) -> Trial:
    """A trial of one driver in which all went well, but for what is told."""
    well = {"chunks": 100, "late": 0, "texts": 95, "lags": [0.2] * 90, "finals": [0.2] * 5}
    return Trial.of(64, [{**well, "failures": [], "cores": 0.5, **told}])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, ""),
        ({"lags": [0.2] * 90 + [0.7] * 10}, "lag p95 700 ms, above 640 ms"),
        ({"lags": [0.2] * 96 + [0.7] * 4}, ""),
        ({"finals": [0.51] * 5}, "final p95 510 ms, above 500 ms"),
        ({"failures": ["no slot"]}, "1 sessions failed, such as with: no slot"),
        ({"late": 2}, "the drivers, of whose chunks 2.0% were late"),
        ({"texts": 40}, "only 40% of chunks were decoded"),
        ({"chunks": 0, "texts": 0, "lags": [], "finals": []}, "only 0% of chunks were decoded"),
    ],
)
def test_what_bounds_the_streams_is_said(told: dict[str, Any], why: str) -> None:
    assert trial(**told).beyond.startswith(why)
    assert bool(trial(**told).beyond) == bool(why)


def test_drivers_are_heard_together() -> None:
    one = {"chunks": 10, "late": 0, "texts": 10, "lags": [0.1], "finals": [], "failures": []}
    both = Trial.of(2, [{**one, "cores": 0.5}, {**one, "lags": [0.3], "cores": 0.25}])
    assert (both.lags, both.chunks, both.driver_cores) == ((0.1, 0.3), 20, 0.75)
    assert both.final_p95_ms is None
    assert both.decoded_share == 1.0


def test_speakers_who_begin_together_are_soon_at_all_places_of_their_segments() -> None:
    speech = Speech([np.arange(16_000, dtype=np.int16)], 10.0)
    chance = np.random.default_rng(0)
    first = [len(speech.segment(chance, first=True)) / 16_000 for _ in range(100)]
    later = [len(speech.segment(chance, first=False)) / 16_000 for _ in range(100)]
    assert min(first) < 1.0
    assert 7.0 <= min(later) <= max(later) <= 13.0


def test_a_pass_of_live_sessions_has_a_window_of_each_and_what_is_new_of_it() -> None:
    geometry = open_checkpoint(DEMO).geometry
    work = live_work(64, geometry)
    assert len(work.windows) == 64
    assert {frames % 64 for frames in work.windows} <= {0, 800 % 64}
    # Of a chunk of 64 frames at most a finished second and the one that has begun are new.
    assert 64 <= len(work.blocks) <= 128


def test_the_measured_windows_have_the_embeddings_of_their_frames() -> None:
    checkpoint = open_checkpoint(DEMO)
    encoder = Encoder(checkpoint, "float32", "cpu", threads=1)
    passes, work = Passes(encoder, checkpoint.geometry), live_work(4, checkpoint.geometry)
    lengths = [len(one) for one in encoder.attend(passes.windows(work))]
    assert lengths == [checkpoint.geometry.embeddings(frames) for frames in work.windows]
    assert len(encoder.convolve(passes.blocks(work))) == len(work.blocks)


@pytest.mark.parametrize(
    ("dtype", "device", "measured"),
    [
        ("bfloat16", "cuda", {"per_window", "varlen", "padded", "graphs"}),
        ("float32", "cuda", {"per_window", "padded", "graphs"}),
        ("bfloat16", "cpu", {"per_window", "padded"}),
    ],
)
def test_each_kind_of_attention_that_the_device_has_is_measured(
    dtype: str, device: str, measured: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = SimpleNamespace(prepare=lambda: None)
    monkeypatch.setattr(attention, "Encoder", lambda *given: given[-1])
    monkeypatch.setattr(attention, "BucketedEncoder", lambda *_: recorded)
    found = dict(attention.encoders(open_checkpoint(DEMO), dtype, device, 64))
    assert set(found) == measured
    for kind, encoder in found.items():
        assert encoder == (recorded if kind == "graphs" else kind)
