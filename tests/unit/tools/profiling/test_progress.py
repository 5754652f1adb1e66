"""The progress shown while a profile is measured."""

from __future__ import annotations

import io
import os

import pytest
from rich.console import Console

from auricle.tools.profiling.levels import Progress, bar, without_request_lines

pytestmark = pytest.mark.unit


def test_what_is_left_shrinks_with_every_step_and_ends_at_nothing() -> None:
    progress = Progress(2, level_seconds=10.0)
    left = [progress.seconds_left]
    for levels in (5, 4):
        for _ in range(levels):
            progress.level_done()
            left.append(progress.seconds_left)
        progress.ramp_done()
        left.append(progress.seconds_left)
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0.0
    assert left[6] == 50.0  # the second ramp is expected to be as long as the first


def test_the_share_that_is_done_ends_at_all_of_it() -> None:
    progress = Progress(2, level_seconds=10.0)
    assert progress.share == 0.0
    for _ in range(2):
        for _ in range(3):
            progress.level_done()
            assert 0.0 < progress.share < 1.0
        progress.ramp_done()
    assert progress.share == 1.0


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_for_terminals_and_lines_are_for_both(terminal: bool) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=100)
    progress = Progress(1, level_seconds=10.0)
    with bar(console) as moved:
        progress.level_done()
        moved(progress)
        console.print("a line", highlight=False)
    assert "a line" in written.getvalue()
    assert (str(progress) in written.getvalue()) is terminal
    assert ("\x1b" in written.getvalue()) is terminal


def test_longer_than_expected_is_at_least_one_more_step() -> None:
    progress = Progress(1, level_seconds=10.0)
    for _ in range(20):
        progress.level_done()
    assert str(progress) == "about 0 min 10 s left"


def test_lines_of_single_requests_are_left_out_of_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with without_request_lines():
        os.write(2, b" INFO router: request_span: route request completed\n")
        os.write(2, b" WARN router: request_span: route request failed\n")
        os.write(2, b"something else, without an end")
    os.write(2, b", and later\n")
    assert capfd.readouterr().err == (
        " WARN router: request_span: route request failed\n"
        "something else, without an end, and later\n"
    )
