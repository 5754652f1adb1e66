"""Commands that end before a graph starts: requirements of a component, and mistakes."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from auricle_testing.commands import auricle
from auricle_testing.server import READY_SECONDS, ROOT

pytestmark = pytest.mark.end_to_end


def test_a_component_that_cannot_start_says_why_in_one_clear_line() -> None:
    done = auricle("component", "Processor", "--Common.model=docs")
    assert done.returncode == 1
    assert "docs has no config.json" in done.stderr
    assert "Traceback" not in done.stderr


# Runs before a command; any attempt to connect ends the process.
NO_CONNECTION = """
import os, sys
sys.addaudithook(lambda event, _: event == "socket.connect" and os._exit(3))
"""
NO_VLLM = """
from importlib.machinery import PathFinder
class WithoutVllm(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] != "vllm":
            return super().find_spec(name, path, target)
sys.meta_path = [WithoutVllm if finder is PathFinder else finder for finder in sys.meta_path]
"""
RUN = "from auricle.cli import main\nmain()"


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("Frontend", NO_VLLM),
        ("Processor", NO_VLLM),
        ("EncodeWorker", NO_VLLM),
        ("PdWorker --PdWorker.engine=transformers", NO_VLLM),
        ("PdWorker", ""),
    ],
)
def test_what_a_component_needs_is_checked_without_serving(name: str, before: str) -> None:
    """Only PD workers that run vLLM need it."""
    code = NO_CONNECTION + before + RUN
    command = [sys.executable, "-c", code, "component", "-f", "configs/demo.yaml", "--check"]
    done = subprocess.run(
        [*command, *name.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "configuration: configs/demo.yaml is valid"
    assert any(line.startswith("imports: ") for line in lines)
    assert any(line.startswith("checkpoint: models/demo, ") for line in lines) or name == "Frontend"
    assert "FAILED" not in done.stdout and "Traceback" not in done.stderr


def test_what_a_component_lacks_is_a_line_and_an_exit_status() -> None:
    done = auricle("component", "Planner", "-f", "configs/demo.yaml", "--check")
    assert done.returncode == 1
    assert "profile: FAILED: Planner.profile is not set" in done.stdout.splitlines()[-1]
    assert "imports: " in done.stdout and "Traceback" not in done.stderr


def test_a_taken_port_is_found_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = auricle(
            *("serve", "graphs.e_pd:Frontend", "-f", "configs/demo.yaml"),
            f"--Frontend.port={port}",
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "auricle", "component", "Planner"]
    done = subprocess.run(
        [*command, f"--Common.discovery_path={tmp_path / 'discovery'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
        # No byte may be written to a file, as on a full disk.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "discovery cannot be written: File too large; free space" in done.stderr
