"""What people use with the same weights, each in a process that hears one recording at a time.

faster-whisper runs in an environment of its own (`make peers-env`), transformers in the project's.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.audio.pcm import Int16
from benchmarks.baselines.client import Baseline, end
from benchmarks.prepared import ROOT

PEERS_PYTHON = ROOT / ".venv-peers/bin/python"
_SECONDS = 600.0
Parts = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Answer:
    """A text, and the CPU seconds that it took."""

    text: str
    cpu_seconds: float


class Peer:
    """One of them, running."""

    def __init__(self, process: subprocess.Popen[str], answers: Baseline, folder: Path) -> None:
        self._process = process
        self._answers = answers
        self._file = folder / "heard.raw"

    def hear(self, pcm: Int16, language: str | None, parts: Parts | None, *, vad: bool) -> Answer:
        """Transcribe a recording, or [start, end) seconds of it, each by itself."""
        assert self._process.stdin is not None
        pcm.astype("<i2").tofile(self._file)
        job = {"audio": str(self._file), "language": language, "parts": parts, "vad": vad}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Answer(**self._answers.read(_SECONDS))  # type: ignore[arg-type]


@contextlib.contextmanager
def peer(name: str, model: Path, folder: Path) -> Iterator[Peer]:
    """Start `faster_whisper` or `transformers` with its weights, and end it afterwards."""
    python = Path(sys.executable) if name == "transformers" else PEERS_PYTHON
    if not python.exists():
        raise SystemExit("faster-whisper's environment is missing; run `make peers-env`")
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(python), str(Path(__file__).parent / f"{name}_peer.py"), str(model.resolve())]
    with (folder / f"{name}.log").open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=_read, args=(process, lines), daemon=True).start()
        subject = Baseline(process, lines)
        try:
            subject.read(_SECONDS)
            yield Peer(process, subject, folder)
        finally:
            end(process)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
