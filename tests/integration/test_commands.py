"""Commands that start processes of their own: the whole graph, or as far as a mistake lets it."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import jiwer
import pytest

from tests import recordings
from tests.commands import auricle
from tests.server import ANSWER_SECONDS, LIGHT_ENGINE, READY_SECONDS, ROOT, leaving_nothing

pytestmark = pytest.mark.end_to_end


def test_without_a_server_the_default_graph_is_started_and_stopped() -> None:
    with leaving_nothing() as environment:
        command = [sys.executable, "-m", "auricle", "transcribe", "--json"]
        done = subprocess.run(
            [*command, str(recordings.path("hello"))],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=READY_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert jiwer.wer(recordings.words("hello"), last["text"]) <= 0.34


def test_the_demo_shows_words_says_what_to_try_and_serves_until_ctrl_c() -> None:
    with leaving_nothing() as environment:
        process = subprocess.Popen(
            [sys.executable, "-m", "auricle", "demo", "--port", "0"],
            cwd=ROOT,
            env=environment | {"COLUMNS": "500"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.rstrip())
            if "until Ctrl-C" in line:
                break
        assert process.poll() is None, said
        [first] = [line for line in said if line.startswith("First words")]
        shown = [line[9:].strip() for line in said[: said.index(first)] if " s  " in line]
        assert jiwer.wer(recordings.words("market"), shown[-1]) <= 0.34
        [page] = [line.strip() for line in said if line.endswith("/") and "http" in line]
        assert "<title>" in httpx.get(page, timeout=ANSWER_SECONDS).text
        file = [line for line in said if f"transcribe FILE --live --url {page[:-1]}" in line]
        assert file, said
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(timeout=READY_SECONDS) == 0


def test_a_component_that_cannot_start_says_why_in_one_clear_line() -> None:
    done = auricle("component", "Processor", "--Common.model=docs")
    assert done.returncode == 1
    assert "docs has no config.json" in done.stderr
    assert "Traceback" not in done.stderr


# Run before a command. Any attempt to connect ends it.
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
    """It is not vLLM, but for PD workers that run it."""
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
        # No byte may be written to a file, as on a disk that is full.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "discovery cannot be written: File too large; free space" in done.stderr


def test_a_launcher_that_logs_json_says_so_of_its_own_errors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = auricle(
        *("serve", "graphs.e_pd:Frontend", "--Frontend.port=0", "--Common.log_format=json"),
        *(f"--Common.model={tmp_path}", *LIGHT_ENGINE),
    )
    assert done.returncode == 1
    entries = [json.loads(line) for line in [*done.stdout.splitlines(), *done.stderr.splitlines()]]
    assert "ended with exit code 1 before it was ready" in entries[-1]["message"]
    assert entries[-1]["component"] == "launcher"


def test_a_checkpoint_that_does_not_fit_stops_the_server_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = auricle(
        *("serve", "graphs.e_pd:Frontend", "-f", "configs/demo.yaml"),
        f"--Common.model={tmp_path}",
    )
    assert done.returncode == 1
    assert "config.json is of a model that auricle does not know" in done.stdout
    assert "Known are: Qwen3-ASR: Qwen3ASRForConditionalGeneration" in done.stdout
    assert "ended with exit code 1 before it was ready" in done.stderr


def test_a_server_whose_output_nobody_reads_any_more_stops_in_order() -> None:
    """As in `auricle serve … | head -1`."""
    with leaving_nothing() as environment:
        command = [sys.executable, "-m", "auricle", "serve", "graphs.e_pd:Frontend"]
        process = subprocess.Popen(
            [*command, "-f", "configs/demo.yaml", "--Frontend.port=0"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=READY_SECONDS)
