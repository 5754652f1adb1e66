"""With JSON logs, all output of a process becomes one object per line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Literal

import pytest
from rich.console import Console

from auricle.launcher.output import StatusBoard, as_json, is_of_one_request

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("ready", "INFO", "ready"),
        ("WARNING:root:look out", "WARNING", "WARNING:root:look out"),
        ("ERROR:    no handshake", "ERROR", "ERROR:    no handshake"),
        ("\x1b[2m2026-11-22T03:27:15.861899Z\x1b[0m \x1b[33m WARN\x1b[0m old", "WARNING", None),
        ("W1122 03:27:37.455000 8521 torch/triton.py:53] none", "WARNING", None),
        ("[W1122 03:27:49.534 utils.cpp:68] Warning: NUMA", "WARNING", None),
        ("{not JSON", "INFO", "{not JSON"),
        ("[1, 2]", "INFO", "[1, 2]"),
        ("Warnings follow", "INFO", "Warnings follow"),
    ],
)
def test_a_plain_line_becomes_a_message_with_its_level(
    line: str, level: str, message: str | None
) -> None:
    entry = json.loads(as_json("PdWorker-2", line))
    assert (entry["component"], entry["process"]) == ("PdWorker", "PdWorker-2")
    assert entry["level"] == level
    assert "\x1b" not in entry["message"]
    assert message is None or entry["message"] == message
    assert entry["time"]


def test_an_object_keeps_its_fields_and_says_which_process_it_is_of() -> None:
    line = '{"level":"WARN","message":"slow","component":"pd_worker","seconds":2}'
    assert json.loads(as_json("PdWorker", line)) == {
        "level": "WARNING",
        "message": "slow",
        "component": "PdWorker",
        "process": "PdWorker",
        "seconds": 2,
    }


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[2m2026\x1b[0m \x1b[32m INFO\x1b[0m router: \x1b[2mrequest_span\x1b[0m: completed",
        '{"level":"INFO","target":"request_span","message":"route request completed"}',
    ],
)
def test_dynamos_line_for_every_request_is_known(line: str) -> None:
    assert is_of_one_request(line)
    assert not is_of_one_request(line.replace("INFO", "WARN"))


def shown(*, terminal: bool, as_json: bool) -> str:
    output = io.StringIO()
    colours: Literal["standard", "auto"] = "standard" if terminal else "auto"
    console = Console(file=output, force_terminal=terminal, color_system=colours)
    board = StatusBoard(["Frontend"], console, quiet=False, as_json=as_json)
    board.set("Frontend", "starting")
    board.log("Frontend", "\x1b[31mred\x1b[0m " + "wide " * 60)
    return output.getvalue()


def test_what_the_launcher_shows_is_json_line_by_line() -> None:
    lines = shown(terminal=False, as_json=True).splitlines()
    assert [json.loads(line)["message"][:8] for line in lines] == ["starting", "red wide"]


@pytest.mark.parametrize(("terminal", "codes"), [(False, False), (True, True)])
def test_colours_are_for_terminals_only(terminal: bool, codes: bool) -> None:
    assert ("\x1b[" in shown(terminal=terminal, as_json=False)) is codes


def test_what_ends_a_process_is_one_object_too() -> None:
    script = """
import warnings
from auricle.process.logs import configure_logging
from auricle.config.settings import CommonSettings
configure_logging("Planner", CommonSettings(log_format="json"))
warnings.warn("old")
raise RuntimeError("no way on")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    warned, ended = (json.loads(line) for line in done.stderr.splitlines())
    assert (warned["level"], ended["level"]) == ("WARNING", "CRITICAL")
    assert ended["message"] == "ended by RuntimeError: no way on"
    assert "Traceback" in ended["exc_info"]
