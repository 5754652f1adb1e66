"""Baseline (c): the stock vLLM OpenAI server, for recorded files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.baselines.client import PYTHON, VLLM_ENVIRONMENT, listening
from benchmarks.baselines.protocol import cpu_seconds

_REQUEST_SECONDS = 300.0


@dataclass(frozen=True)
class FileResult:
    """One file's text and cost."""

    text: str
    wall_seconds: float
    cpu_seconds: float


class OpenAiServer:
    """A running server."""

    def __init__(self, url: str, process: psutil.Process, model: str) -> None:
        self._url, self._process, self._model = url, process, model

    def transcribe(self, path: Path) -> FileResult:
        """Transcribe one file with a POST request."""
        before, began = cpu_seconds(self._process), time.monotonic()
        with path.open("rb") as file:
            answer = httpx.post(
                f"{self._url}/v1/audio/transcriptions",
                files={"file": (path.name, file)},
                data={"model": self._model, "language": "en", "temperature": "0"},
                timeout=_REQUEST_SECONDS,
            )
        answer.raise_for_status()
        wall = time.monotonic() - began
        return FileResult(answer.json()["text"], wall, cpu_seconds(self._process) - before)


@contextlib.contextmanager
def openai_server(model: Path, port: int, log: Path, threads: int = 1) -> Iterator[OpenAiServer]:
    """Start the server, yield it when it is ready, and end it afterwards."""
    environment = VLLM_ENVIRONMENT | {"OMP_NUM_THREADS": str(threads)}
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", f"--model={model}"]
    options = "--dtype=float32 --max-model-len=4096 --enforce-eager --skip-mm-profiling"
    command += [*options.split(), "--host=127.0.0.1", f"--port={port}"]
    with listening(command, port, log, environment) as process:
        yield OpenAiServer(f"http://127.0.0.1:{port}", process, str(model))
