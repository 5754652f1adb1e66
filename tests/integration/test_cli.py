"""The `auricle` command as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jiwer
import pytest

from tests import recordings
from tests.server import ROOT, Server, leaving_nothing

pytestmark = pytest.mark.end_to_end


def auricle(*arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auricle", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )


def test_transcribe_prints_the_words(server: Server) -> None:
    done = auricle("transcribe", str(recordings.path("hello")), "--url", server.url)
    assert done.returncode == 0, done.stderr
    assert jiwer.wer(recordings.words("hello"), done.stdout) <= 0.34


def test_json_prints_every_event_as_a_line(server: Server) -> None:
    done = auricle("transcribe", str(recordings.path("hello")), "--url", server.url, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["ready", "done"]


def test_live_shows_text_as_it_comes(server: Server) -> None:
    done = auricle("transcribe", str(recordings.path("hello")), "--url", server.url, "--live")
    lines = done.stdout.splitlines()
    assert len(lines) >= 3
    assert re.match(r"\s*\d+\.\d\d s   \S", lines[0])


def test_without_a_server_the_default_graph_is_started_and_stopped() -> None:
    with leaving_nothing() as environment:
        command = [sys.executable, "-m", "auricle", "transcribe", "--json"]
        done = subprocess.run(
            [*command, str(recordings.path("hello"))],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert jiwer.wer(recordings.words("hello"), last["text"]) <= 0.34


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["transcribe", "missing.wav"], "no such audio file: missing.wav"),
        (["transcribe", "README.md"], "README.md is not readable as WAV"),
        (
            ["transcribe", "models/demo/recordings/hello.flac", "--url", "http://127.0.0.1:9"],
            "no auricle server at http://127.0.0.1:9",
        ),
        (
            ["serve", "graphs.e_pd:Frontend", "-f", "configs/demo.yaml", "--Frontend.prot=1"],
            "unknown key Frontend.prot; did you mean port",
        ),
        (["serve", "graphs.e_pd:Frontend", "-f", "none.yaml"], "cannot read none.yaml"),
        (
            ["component", "EncodeWorker", "--Common.model=docs"],
            "docs has no config.json",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(arguments: list[str], said: str) -> None:
    done = auricle(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_checkpoint_that_does_not_fit_stops_the_server_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = auricle(
        *("serve", "graphs.e_pd:Frontend", "-f", "configs/demo.yaml"),
        f"--Common.model={tmp_path}",
    )
    assert done.returncode == 1
    assert "is not a Qwen3-ASR config" in done.stdout
    assert "ended before it was ready" in done.stderr


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
        process.wait(timeout=90)
