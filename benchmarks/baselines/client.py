"""Runs a baseline in its own environment (`make bench-env`) and sends it decode jobs."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.baselines.protocol import DecodeJob, DecodeResult

ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent / "site"
PYTHON = ROOT / ".venv-bench/bin/python"
MODULES = {"a": "transformers_direct", "b": "stock_vllm"}
_READY_SECONDS = 240.0
_JOB_SECONDS = 300.0
# vLLM on a CPU, without a hub. Its threads are the caller's.
VLLM_ENVIRONMENT = {
    "PYTHONPATH": f"{SITE}:{ROOT}:{ROOT / 'components'}",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


class Baseline:
    """A baseline process, which runs one job at a time."""

    def __init__(self, process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        self._process = process
        self._lines = lines

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def read(self, seconds: float) -> dict[str, object]:
        """Return the next reply. Raises RuntimeError if the baseline has ended or is silent."""
        for _ in range(int(seconds * 2)):
            with contextlib.suppress(queue.Empty):
                answer: dict[str, object] = json.loads(self._lines.get(timeout=0.5))
                return answer
            if self._process.poll() is not None:
                raise RuntimeError(f"the baseline ended with {self._process.returncode}")
        raise RuntimeError(f"the baseline said nothing for {seconds:g} s")

    def ask(self, job: Mapping[str, object], seconds: float) -> dict[str, object]:
        """Return the reply to a job. Raises as `read`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self.read(seconds)

    def decode(self, job: DecodeJob) -> DecodeResult:
        """Run one job and return its result."""
        return DecodeResult(**self.ask(asdict(job), _JOB_SECONDS))  # type: ignore[arg-type]


@contextlib.contextmanager
def baseline(name: str, model: Path, log: Path, threads: int = 1) -> Iterator[Baseline]:
    """Start baseline `a` or `b` and yield it when it is ready; end all its processes afterwards."""
    if not PYTHON.exists():
        raise SystemExit("the baselines' environment is missing; run `make bench-env`")
    command = [str(PYTHON), "-m", f"benchmarks.baselines.{MODULES[name]}"]
    options = [f"--model={model}", f"--threads={threads}"]
    environment = {"PYTHONPATH": f"{SITE}:{ROOT}"}
    with answering([*command, *options], environment, log, _READY_SECONDS) as subject:
        yield subject


@contextlib.contextmanager
def answering(
    command: Sequence[str], environment: Mapping[str, str], log: Path, ready_seconds: float
) -> Iterator[Baseline]:
    """Start a process that answers lines of JSON, and end it and its descendants afterwards.

    It is yielded once its first line has come. Raises as `Baseline.read`.
    """
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process, lines), daemon=True).start()
        subject = Baseline(process, lines)
        try:
            subject.read(ready_seconds)
            yield subject
        finally:
            end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """End the process and its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        _, alive = psutil.wait_procs([psutil.Process(process.pid), *family], timeout=20)
        for one in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()


@contextlib.contextmanager
def listening(
    command: Sequence[str],
    port: int,
    log: Path,
    environment: Mapping[str, str],
    *,
    health: str | None = "/health",
    health_port: int | None = None,
    health_text: str = "",
) -> Iterator[psutil.Process]:
    """Start a server of another project, yield it when it is ready, and end it afterwards.

    Ready is an answer to GET `health` that has `health_text`, or without `health` that the port
    takes connections. `health_port` is for servers that answer on another port. Raises RuntimeError
    if the server ends first or takes too long.
    """
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=output
        )
        try:
            _wait_until_ready(process, log, health_port or port, health, health_text)
            yield psutil.Process(process.pid)
        finally:
            end(process)


def _wait_until_ready(
    process: subprocess.Popen[Any], log: Path, port: int, health: str | None, text: str
) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}; see {log}")
        with contextlib.suppress(httpx.HTTPError, OSError):
            if health is None:
                socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
                return
            answer = httpx.get(f"http://127.0.0.1:{port}{health}", timeout=5.0)
            if answer.status_code == 200 and text in answer.text:
                return
        time.sleep(0.5)
    raise RuntimeError(f"the server did not become ready; see {log}")


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
