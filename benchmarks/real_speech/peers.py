"""What others do with the same weights, each in a process that hears one recording at a time.

faster-whisper runs in an environment of its own (`make peers-env`), transformers and stock vLLM in
the project's.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class Process:
    """One of them, which answers a line of JSON with another."""

    def __init__(self, process: subprocess.Popen[str], answers: Baseline, folder: Path) -> None:
        self._process = process
        self._answers = answers
        self._file = folder / "heard.raw"

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return its answer. Raises RuntimeError if it has ended or is silent."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._answers.read(_SECONDS)

    def hear(
        self, pcm: Int16, language: str | None, parts: Parts | None, *, vad: bool = False
    ) -> Answer:
        """Transcribe a recording, or [start, end) seconds of it, each by itself."""
        pcm.astype("<i2").tofile(self._file)
        return Answer(
            **self.ask({"audio": str(self._file), "language": language, "parts": parts, "vad": vad})
        )


@contextlib.contextmanager
def process(name: str, model: Path, folder: Path) -> Iterator[Process]:
    """Start `faster_whisper`, `transformers` or `stock_vllm` with its weights, and end it."""
    python = PEERS_PYTHON if name == "faster_whisper" else Path(sys.executable)
    if not python.exists():
        raise SystemExit("faster-whisper's environment is missing; run `make peers-env`")
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(python),
        "-P",
        str(Path(__file__).parent / f"{name}_peer.py"),
        str(model.resolve()),
    ]
    with (folder / f"{name}.log").open("w") as errors:
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(started, lines), daemon=True).start()
        answers = Baseline(started, lines)
        try:
            answers.read(_SECONDS)
            yield Process(started, answers, folder)
        finally:
            end(started)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
