"""Traces from CSV files: what is read, and what is said of files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.planner.replay import TraceError, read_trace

pytestmark = pytest.mark.unit


def written(folder: Path, *lines: str) -> Path:
    file = folder / "trace.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_sessions_by_seconds_and_by_iso_time_are_the_same_trace(tmp_path: Path) -> None:
    counts = [10, 40, 20]
    seconds = [f"{n * 3600},{count}" for n, count in enumerate(counts)]
    iso = [f"2026-01-31T0{n}:00:00,{count}" for n, count in enumerate(counts)]
    one = read_trace(written(tmp_path, "seconds,sessions", *seconds), gpus=16)
    other = read_trace(written(tmp_path, "time,sessions", *iso), gpus=16)
    assert np.array_equal(one.sessions, other.sessions)
    assert one.scored_from == len(one.sessions) // 4
    assert float((one.encode + one.pd).max()) == pytest.approx(16, rel=0.2)


def test_even_arrivals_are_a_level_once_sessions_begin_to_end(tmp_path: Path) -> None:
    rows = [f"{n * 60},12" for n in range(180)]
    trace = read_trace(written(tmp_path, "seconds,arrivals", *rows), gpus=8)
    assert trace.sessions[-1] == pytest.approx(float(trace.sessions[500]))
    assert trace.sessions[1] < trace.sessions[500] / 10


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["when,people", "0,1"], "line 1: two columns are needed"),
        (["seconds,sessions", "0,1", "noon,2"], "line 3: 'noon' is no time"),
        (["seconds,sessions", "0,1", "60,-2"], "line 3: '-2' is no number of sessions"),
        (["seconds,sessions", "0,1", "60,many"], "line 3: 'many' is no number of sessions"),
        (["seconds,sessions", "60,1", "60,2"], "line 3: the time is not after"),
        (["seconds,sessions", "0,1,2"], "line 2: 3 columns"),
        (["seconds,sessions", "0,1", "60,1"], "lasts 60 s"),
        (["seconds,sessions", "0,0", "7200,0"], "no sessions at any time"),
        (["seconds,sessions"], "lasts 0 s"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_the_line(
    tmp_path: Path, lines: list[str], says: str
) -> None:
    with pytest.raises(TraceError, match=says):
        read_trace(written(tmp_path, *lines), gpus=2)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read as CSV"):
        read_trace(tmp_path / "none.csv", gpus=2)
