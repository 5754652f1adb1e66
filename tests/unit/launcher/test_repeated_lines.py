"""Lines that a process's Rust code logs repeatedly are counted and summarized."""

from __future__ import annotations

from string import ascii_lowercase

import pytest

from auricle.launcher.output import RepeatedLines

pytestmark = pytest.mark.unit
ACCEPT = (
    "\x1b[2m2026-11-23T00:11:20.98{:04d}Z\x1b[0m \x1b[31mERROR\x1b[0m dynamo_runtime::pipeline: "
    "Failed to accept TCP connection: Too many open files (os error 24) request_id={:08x}-a1b2"
)


class Board:
    """A log, and a stopped clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[tuple[str, str]] = []
        self.repeated = RepeatedLines(
            lambda process, line: self.said.append((process, line)), self.clock
        )

    def clock(self) -> float:
        return self.now

    def shown(self, process: str, lines: list[str]) -> int:
        return sum(self.repeated.passes(process, line) for line in lines)


def test_a_warning_that_repeats_is_shown_some_times_and_then_summed_up() -> None:
    board = Board()
    lines = [ACCEPT.format(number, number) for number in range(1_000)]
    assert board.shown("EncodeWorker-1", lines) == 20
    board.repeated.sum_up()
    assert board.said == []
    board.now = 60.0
    board.repeated.sum_up()
    ((process, said),) = board.said
    assert process == "EncodeWorker-1"
    assert said.startswith("980 more lines within 60 s of: ERROR dynamo_runtime::pipeline: Failed")
    assert board.shown("EncodeWorker-1", lines) == 20


def test_other_processes_and_other_lines_are_not_held_back_by_it() -> None:
    board = Board()
    board.shown("EncodeWorker-1", [ACCEPT.format(n, n) for n in range(100)])
    assert board.shown("EncodeWorker-2", [ACCEPT.format(1, 1)]) == 1
    other = ACCEPT.replace("accept TCP", "close TCP")
    assert board.shown("EncodeWorker-1", [other.format(1, 1)]) == 1


def test_lines_as_json_are_counted_too() -> None:
    board = Board()
    line = '{{"time":"2026-11-23T00:11:{:02d}Z","level":"WARN","target":"tcp","message":"reset"}}'
    assert board.shown("Frontend", [line.format(n % 60) for n in range(100)]) == 20


def test_what_python_logs_passes_as_its_loggers_have_counted_it() -> None:
    board = Board()
    lines = ["WARNING auricle.dynamo.remote: call failed"] * 100
    lines += ['{"time": "2026", "level": "WARN", "logger": "auricle", "message": "x"}'] * 100
    assert board.shown("Frontend", lines) == 200


def test_however_many_kinds_there_are_their_number_is_bounded() -> None:
    board = Board()
    letters = ascii_lowercase
    kinds = [f"{a}{b}x" for a in letters for b in letters]
    lines = [f"2026-11-23T00:11:20.98Z  WARN tcp: {kind}" for kind in kinds]
    assert board.shown("Frontend", lines) == 520
    board.now = 60.0
    board.repeated.sum_up()
    assert board.said[-1][1].endswith("of: lines of other kinds")
