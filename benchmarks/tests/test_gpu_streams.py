"""The search for the capacity of pools, and the measurements of the GPU benchmark."""

from __future__ import annotations

from typing import Any

import pytest

from auricle.tools.load_generation.search import most_carried
from auricle.tools.load_generation.speakers import CHUNK, Chunk
from benchmarks.gpu.measurements import Chunks, Measurements, Trial

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


def pushed(measured: Measurements, *chunks: Chunk) -> Chunks:
    session = Chunks(measured)
    for chunk in chunks:
        session.pushed(chunk, chunk.due)
    return session


def milliseconds(chunks: int) -> int:
    return 640 * chunks


def test_a_chunk_lags_until_the_first_text_that_covers_it() -> None:
    measured = Measurements(0.0, 10.0)
    session = pushed(measured, Chunk(CHUNK, 1.0, last=False), Chunk(2 * CHUNK, 1.64, last=False))
    session.text(milliseconds(1), 1.2)
    session.text(milliseconds(2), 1.74)
    assert measured.lags == pytest.approx([0.2, 0.1])
    assert (measured.chunks, measured.texts) == (2, 2)


def test_a_chunk_whose_grid_point_was_skipped_waits_for_the_next_text() -> None:
    measured = Measurements(0.0, 10.0)
    session = pushed(measured, Chunk(CHUNK, 1.0, last=False), Chunk(2 * CHUNK, 1.64, last=False))
    session.text(milliseconds(2), 1.84)
    assert measured.lags == pytest.approx([0.84, 0.2])
    assert (measured.chunks, measured.texts) == (2, 1)


def test_the_end_of_a_segment_counts_separately() -> None:
    measured = Measurements(0.0, 10.0)
    session = pushed(measured, Chunk(CHUNK, 1.0, last=False), Chunk(CHUNK + 1001, 1.1, last=True))
    session.text((CHUNK + 1001) // 16, 1.5)  # rounded down, as in final texts
    assert measured.lags == pytest.approx([0.5])
    assert measured.finals == pytest.approx([0.4])


def test_chunks_due_at_another_time_do_not_count() -> None:
    measured = Measurements(1.0, 2.0)
    session = pushed(measured, Chunk(CHUNK, 0.9, last=False), Chunk(2 * CHUNK, 2.0, last=False))
    session.text(milliseconds(2), 2.5)
    assert (measured.chunks, measured.texts, measured.lags) == (0, 0, [])


def test_a_chunk_without_text_is_late_until_the_end() -> None:
    measured = Measurements(0.0, 10.0)
    pushed(measured, Chunk(CHUNK, 1.0, last=False)).over(4.0)
    assert measured.lags == [3.0]
    assert measured.texts == 0


def trial(**changed: Any) -> Trial:
    """A trial of one driver in which all went well, except for `changed`."""
    well = {"chunks": 100, "late": 0, "texts": 95, "lags": [0.2] * 90, "finals": [0.2] * 5}
    return Trial.of(64, [{**well, "failures": [], "cores": 0.5, **changed}])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"lags": [0.2] * 90 + [0.7] * 10}, "lag p95 700 ms, above 640 ms"),
        ({"lags": [0.2] * 96 + [0.7] * 4}, ""),
        ({"finals": [0.51] * 5}, "final p95 510 ms, above 500 ms"),
        ({"failures": ["no slot"]}, "1 sessions failed, such as with: no slot"),
        ({"late": 2}, "2.0% of the drivers' chunks were late"),
        ({"texts": 40}, "only 40% of chunks were decoded"),
        ({"chunks": 0, "texts": 0, "lags": [], "finals": []}, "only 0% of chunks were decoded"),
    ],
)
def test_the_reason_why_streams_are_not_carried(changed: dict[str, Any], why: str) -> None:
    assert trial(**changed).beyond.startswith(why)
    assert bool(trial(**changed).beyond) == bool(why)
