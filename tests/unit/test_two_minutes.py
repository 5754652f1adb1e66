"""`make bench`: when the ramp ends, and what is drawn of it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from auricle.cli import main
from benchmarks import two_minutes
from benchmarks.load.trial import Load, Trial
from benchmarks.two_minutes import Step, carried, draw, ramp
from tests.server import ROOT

pytestmark = pytest.mark.unit
GOOD: Step = {
    "sessions": 4.0,
    "refused": 0.0,
    "valid": 1.0,
    "slo_share": 1.0,
    "partial_lag_p95_ms": 650.0,
    "stop_to_final_p95_ms": 90.0,
}


@pytest.mark.parametrize(
    ("change", "good"),
    [({}, True), ({"slo_share": 0.98}, False), ({"refused": 1.0}, False), ({"valid": 0.0}, False)],
)
def test_sessions_are_carried_if_all_are_let_in_and_their_text_is_in_time(
    change: Step, good: bool
) -> None:
    assert carried(GOOD | change) is good


def test_the_ramp_ends_with_the_first_number_that_is_not_carried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    def measure(_url: str, sessions: int, _seconds: float) -> tuple[Step, list[float]]:
        tried.append(sessions)
        share = 1.0 if sessions < 8 else 0.5
        return GOOD | {"sessions": float(sessions), "slo_share": share}, []

    monkeypatch.setattr(two_minutes, "_measure", measure)
    found = ramp("http://127.0.0.1:1", (1, 4, 8, 16), 1.0, Console(quiet=True))
    assert [step["sessions"] for step in found] == [1, 4, 8]
    assert tried == [1, 1, 4, 8]  # the first is a warm-up


def test_a_step_has_as_many_sessions_as_are_open_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many come and go meanwhile."""

    async def run_trial(load: Load, *_: object) -> Trial:
        return Trial(load, records=[])

    monkeypatch.setattr(two_minutes, "run_trial", run_trial)
    (step,) = ramp("http://127.0.0.1:1", (4,), 1.0, Console(quiet=True))
    assert step["sessions"] == 4


def test_what_never_came_is_a_gap_in_the_plot() -> None:
    figure = draw([GOOD, GOOD | {"sessions": 8.0, "partial_lag_p95_ms": math.inf}], {})
    lag, limit, *_ = figure.axes[0].get_lines()
    assert lag.get_xdata().tolist() == [4, 8]
    assert lag.get_ydata()[0] == 650 and math.isnan(lag.get_ydata()[1])
    assert limit.get_ydata()[0] == 940


def test_the_steps_of_a_chunk_are_drawn_one_after_the_other() -> None:
    figure = draw([GOOD], {"receive": 2.0, "mel": 1.0, "total": 3.0})
    bars = [(bar.get_x(), bar.get_width()) for bar in figure.axes[1].patches]
    assert [bar for bar in bars if bar[1]] == [(0.0, 2.0), (2.0, 1.0)]
    assert len(draw([GOOD], {}).axes) == 1


def test_auricle_bench_becomes_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("os.execv", lambda _program, command: became.append(command))
    url = "http://127.0.0.1:1"
    assert CliRunner().invoke(main, ["bench", "--url", url, "--out", "here"]).exit_code == 0
    (command,) = became
    assert command[1:] == ["-m", "benchmarks.two_minutes", "--out", "here", "--url", url]


def test_auricle_bench_says_where_it_is_at_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["bench"])
    assert done.exit_code == 1
    assert "run auricle bench in the folder of auricle's repository" in done.output
