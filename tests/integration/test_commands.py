"""Commands that start the whole graph, or fail during its start because of a mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import jiwer
import pytest

from auricle_testing import recordings
from auricle_testing.commands import auricle
from auricle_testing.server import (
    ANSWER_SECONDS,
    LIGHT_ENGINE,
    READY_SECONDS,
    ROOT,
    leaving_nothing,
)

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


# The launcher's lines, and a component's name with its status or a line of its log.
OWN = re.compile(
    r"auricle ready at http\S+|launcher +stopping when .+|"
    r"(?:EncodeWorker|PdWorker|Processor|Frontend) +"
    r"(?:INFO auricle\..+|starting|reading checkpoint|waiting for .+|loading .+|warming up|"
    r"starting vLLM|listening at http\S+|ready|draining|stopping)"
)


@pytest.mark.parametrize("stop", ["SIGTERM", "Ctrl-C"])
def test_a_start_and_a_stop_log_no_lines_of_libraries(stop: str) -> None:
    with leaving_nothing() as environment:
        environment.pop("DYN_LOG")  # set for tests
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "auricle", "serve", "graphs.e_pd:Frontend"),
                *("-f", "configs/demo.yaml", "--Frontend.port=0"),
            ],
            cwd=ROOT,
            env=environment | {"COLUMNS": "500"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.rstrip())
            if "auricle ready" in line:
                break
        if stop == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all processes
        else:
            process.terminate()
        said += process.stdout.read().splitlines()
        assert process.wait(timeout=READY_SECONDS) == 0
    others = [line for line in said if not OWN.fullmatch(line.rstrip())]
    assert others == []
    assert sum(line.endswith("stopping") for line in said) == 4


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
        *(f"--Common.model={tmp_path}", *LIGHT_ENGINE),
    )
    assert done.returncode == 1
    assert "config.json is of a model that auricle does not know" in done.stdout
    assert "Known are: Qwen3-ASR: Qwen3ASRForConditionalGeneration" in done.stdout
    assert "ended with exit code 1 before it was ready" in done.stderr


def test_a_server_whose_output_nobody_reads_any_more_stops_in_order() -> None:
    """The case of `auricle serve … | head -1`."""
    with leaving_nothing() as environment:
        command = [sys.executable, "-m", "auricle", "serve", "graphs.e_pd:Frontend"]
        process = subprocess.Popen(
            [*command, "-f", "configs/demo.yaml", "--Frontend.port=0", *LIGHT_ENGINE],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=READY_SECONDS)
