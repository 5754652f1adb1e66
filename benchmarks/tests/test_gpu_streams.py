"""How the GPU benchmark finds the most streams that pools carry, and the work it measures."""

from __future__ import annotations

from typing import Any

import pytest

from auricle.tools.load_generation.search import most_carried
from benchmarks.gpu.heard import Chunk, Chunks, Heard, Trial
from benchmarks.gpu.speaker import CHUNK

pytestmark = pytest.mark.unit


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
