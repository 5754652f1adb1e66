"""The `auricle` command as a user types it, against a running graph."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import jiwer
import pytest
import soundfile
from click.testing import CliRunner, Result

from auricle.cli import main
from auricle_testing import recordings
from auricle_testing.commands import auricle
from auricle_testing.server import Server

pytestmark = pytest.mark.end_to_end


def test_transcribe_prints_the_words(server: Server) -> None:
    done = auricle("transcribe", str(recordings.path("hello")), "--url", server.url)
    assert done.returncode == 0, done.stderr
    assert jiwer.wer(recordings.words("hello"), done.stdout) <= 0.34


def in_process(*arguments: str) -> Result:
    """Run the command in this process; its imports in a new one would take seconds."""
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
    done = in_process("transcribe", str(file), "--url", server.url)
    assert done.exit_code == 0, done.stderr
    assert jiwer.wer(recordings.words("hello"), done.stdout) <= 0.34


def test_json_prints_every_event_as_a_line(server: Server) -> None:
    done = in_process("transcribe", str(recordings.path("hello")), "--url", server.url, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["ready", "done"]


def test_live_shows_text_as_it_comes(server: Server) -> None:
    # Long enough for more than two partials, even if a process hangs and some are skipped.
    done = in_process("transcribe", str(recordings.path("kitchen")), "--url", server.url, "--live")
    lines = done.stdout.splitlines()
    assert len(lines) >= 3
    assert re.match(r"\s*\d+\.\d\d s   \S", lines[0])


def test_the_demo_uses_a_server_that_runs_and_leaves_it(server: Server) -> None:
    done = in_process("demo", "--port", server.url.rpartition(":")[2])
    assert done.exit_code == 0, done.output
    assert f"transcribe FILE --live --url {server.url}" in done.stdout
    assert f"The server at {server.url} was running before, and keeps running." in done.stdout
    assert server.process.poll() is None


def test_the_demo_says_where_it_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_process("demo", "--port", "0")
    assert done.exit_code == 1
    assert done.stderr == (
        f"auricle: configs/demo.yaml is not here ({tmp_path}): run auricle demo in the folder of "
        "auricle's repository\n"
    )


# A fake `sounddevice`: its microphone yields a recording in real time, and then silence.
SOUND_CARD = """
import itertools, time, wave

class PortAudioError(Exception): ...

class RawInputStream:
    def __init__(self, **_):
        with wave.open({path!r}) as file:
            pcm = file.readframes(file.getnframes())
        packets = [pcm[at : at + 3200] for at in range(0, len(pcm), 3200)]
        self._left = itertools.chain(packets, itertools.repeat(bytes(3200)))

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def read(self, _samples):
        time.sleep(0.1)
        return next(self._left), False
"""


def test_a_microphone_is_heard_until_ctrl_c(server: Server, tmp_path: Path) -> None:
    recording, report = tmp_path / "hello.wav", tmp_path / "report.html"
    soundfile.write(recording, recordings.samples("hello"), 16_000, subtype="PCM_16")
    (tmp_path / "sounddevice.py").write_text(SOUND_CARD.format(path=str(recording)))
    done = subprocess.Popen(
        [
            *(sys.executable, "-m", "auricle", "transcribe", "--mic", "--url", server.url),
            *("--json", "--report", str(report)),
        ],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with done:
        assert done.stdout is not None
        events = []
        for line in done.stdout:
            events.append(json.loads(line))
            if events[-1]["type"] == "final":
                done.send_signal(signal.SIGINT)
    assert done.returncode == 0
    assert events[-1]["type"] == "done"
    assert jiwer.wer(recordings.words("hello"), events[-1]["text"]) <= 0.34
    assert events[-1]["text"] in report.read_text()


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
            "the command line: Frontend.prot: unknown key; did you mean port",
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
    assert isinstance(done.exception, SystemExit)  # any other exception would print a traceback
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
