"""Other implementations with the same weights, each in a process for one recording at a time.

faster-whisper runs in an environment of its own (`make peers-env`), transformers and stock vLLM in
the project's.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.audio.pcm import Int16
from benchmarks.baselines.client import Baseline, answering
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
    """A process of one implementation, which answers a line of JSON with another."""

    def __init__(self, answers: Baseline, folder: Path) -> None:
        self._answers = answers
        self._file = folder / "heard.raw"

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._answers.pid

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return its answer. Raises RuntimeError if it has ended or is silent."""
        return self._answers.ask(job, _SECONDS)

    def hear(
        self, pcm: Int16, language: str | None, parts: Parts | None, *, vad: bool = False
    ) -> Answer:
        """Transcribe a recording, or [start, end) seconds of it, each by itself."""
        pcm.astype("<i2").tofile(self._file)
        return Answer(
            **self.ask({"audio": str(self._file), "language": language, "parts": parts, "vad": vad})
        )


@contextlib.contextmanager
def process(
    name: str, model: Path, folder: Path, options: Mapping[str, Any] | None = None
) -> Iterator[Process]:
    """Start `faster_whisper`, `transformers` or `stock_vllm` with its weights, and end it.

    `faster_whisper_peer.py` explains `options`.
    """
    python = PEERS_PYTHON if name == "faster_whisper" else Path(sys.executable)
    if not python.exists():
        raise SystemExit("faster-whisper's environment is missing; run `make peers-env`")
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(python),
        "-P",
        str(Path(__file__).parent / f"{name}_peer.py"),
        str(model.resolve()),
        *([json.dumps(options)] if options else []),
    ]
    environment = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with answering(command, environment, folder / f"{name}.log", _SECONDS) as subject:
        yield Process(subject, folder)
