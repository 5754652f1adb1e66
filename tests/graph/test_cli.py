"""The `auricle` command as a user types it."""

from __future__ import annotations

import json
import re
import resource
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import jiwer
import pytest
from click.testing import CliRunner, Result

from auricle.cli import main
from tests import recordings
from tests.server import READY_SECONDS, ROOT, Server, leaving_nothing

pytestmark = pytest.mark.end_to_end


def auricle(*arguments: str, seconds: float = READY_SECONDS) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auricle", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )


def test_transcribe_prints_the_words(server: Server) -> None:
    done = auricle("transcribe", str(recordings.path("hello")), "--url", server.url)
    assert done.returncode == 0, done.stderr
    assert jiwer.wer(recordings.words("hello"), done.stdout) <= 0.34


def in_process(*arguments: str) -> Result:
    """The command without a process of its own, whose imports would take seconds."""
    with ThreadPoolExecutor(1) as thread:  # the event loop of this thread is pytest's
        return thread.submit(CliRunner().invoke, main, arguments).result()


def test_transcribe_takes_what_a_phone_records(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "memo.m4a"
    with av.open(str(file), "w", format="ipod") as container:
        track = container.add_stream("aac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            recordings.samples("hello")[None, :], format="fltp", layout="mono"
        )
        frame.rate = 16_000
        container.mux(track.encode(frame))
        container.mux(track.encode(None))
    done = auricle("transcribe", str(file), "--url", server.url)
    assert done.returncode == 0, done.stderr
    assert jiwer.wer(recordings.words("hello"), done.stdout) <= 0.34


def test_json_prints_every_event_as_a_line(server: Server) -> None:
    done = in_process("transcribe", str(recordings.path("hello")), "--url", server.url, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["ready", "done"]


def test_live_shows_text_as_it_comes(server: Server) -> None:
    # Long enough that there are more than two, though some are skipped while a process hangs.
    done = in_process("transcribe", str(recordings.path("kitchen")), "--url", server.url, "--live")
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
            timeout=READY_SECONDS,
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
            ["transcribe", "models/demo/recordings/hello.flac", "--url", "127.0.0.1:8203"],
            "127.0.0.1:8203 is not the address of a server; it must begin with http://",
        ),
        (
            ["serve", "graphs.e_pd:Frontend", "-f", "configs/demo.yaml", "--Frontend.prot=1"],
            "the command line: unknown key Frontend.prot; did you mean port",
        ),
        (
            ["component", "Planner", "--Common.discovery_path=README.md/discovery"],
            "the discovery directory README.md/discovery cannot be written: Not a directory",
        ),
        (["serve", "graphs.e_pd:Frontend", "-f", "none.yaml"], "cannot read none.yaml"),
        (
            ["serve", "graphs.e_pd:Frontend", "--Frontend.port=0", "--Common.discovery=etcd"],
            "Common.discovery is 'etcd', and Common.secret_file is not set",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(arguments: list[str], said: str) -> None:
    done = in_process(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert isinstance(done.exception, SystemExit)  # what else it raised would be a traceback
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_component_that_cannot_start_says_why_in_one_clear_line() -> None:
    done = auricle("component", "EncodeWorker", "--Common.model=docs")
    assert done.returncode == 1
    assert "docs has no config.json" in done.stderr
    assert "Traceback" not in done.stderr


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
        f"--Common.model={tmp_path}",
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
    assert "is not a Qwen3-ASR config" in done.stdout
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
