"""The servers under load, each started for a block and ended after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from auricle_testing.server import AS_DELIVERED, free_port, serving
from benchmarks.baselines.client import PYTHON, ROOT, VLLM_ENVIRONMENT, listening
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import RunSession, Target, protocol
from benchmarks.load.trial import Load, run_trial
from benchmarks.prepared import checkpoint

_WARM_UP = SpeechStyle((3.0, 6.0))


@dataclass(frozen=True)
class Subject:
    """A kind of server with a model: `demo`, or a size of `benchmarks.heavier`.

    `name` is `ours`, a baseline (`a`, `b`, with `-segmented`), `vllm-realtime` or, for recordings,
    `vllm-openai`.
    """

    name: str
    model: str

    @property
    def session(self) -> RunSession:
        """The function that runs one client session."""
        return protocol("vllm-realtime" if self.name == "vllm-realtime" else "stream")


@dataclass(frozen=True)
class Running:
    """A server that is ready, and the annotations that its sessions request, as in `Target`."""

    url: str
    model: str
    process: psutil.Process
    words: bool = False
    diarize: bool = False
    translate: tuple[str, ...] = ()

    def target(self, chunk_ms: int) -> Target:
        """Return the target with that cadence."""
        return Target(
            *(self.url, self.model, chunk_ms),
            words=self.words,
            diarize=self.diarize,
            translate=self.translate,
        )


@contextlib.contextmanager
def running(subject: Subject, work: Path, *overrides: str) -> Iterator[Running]:
    """Start the server, warm it up and yield it; `overrides` are for `auricle serve`."""
    if subject.name == "ours":
        options = (*AS_DELIVERED, f"--Common.model={directory(subject.model)}", *overrides)
        with serving(*options, environment=_ONE_THREAD) as server:
            ours = Running(
                server.url, directory(subject.model).name, psutil.Process(server.process.pid)
            )
            _warm_up(subject, ours)
            yield ours
        return
    with _process(_command(subject), work / f"{subject.name}-{subject.model}.log") as theirs:
        _warm_up(subject, theirs)
        yield theirs


# `threads` sets the threads of the serving processes; this is for libraries that count the cores.
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def directory(model: str) -> Path:
    """Return the checkpoint's folder; make the checkpoint if it is missing."""
    return ROOT / "models/demo" if model == "demo" else checkpoint(model)


def _command(subject: Subject) -> list[str]:
    model = str(directory(subject.model))
    if subject.name in ("vllm-realtime", "vllm-openai"):
        command = [
            *("vllm.entrypoints.openai.api_server", f"--model={model}", "--dtype=float32"),
            *("--max-model-len=4096", "--enforce-eager", "--skip-mm-profiling"),
            "--host=127.0.0.1",
        ]
        if subject.name == "vllm-realtime":
            command.append('--hf-overrides={"architectures":["Qwen3ASRRealtimeGeneration"]}')
        if subject.name == "vllm-openai":
            # In its favour; see baselines/stock_vllm.py.
            executor = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
            command.append(f"--distributed-executor-backend={executor}")
            command.append("--disable-uvicorn-access-log")
        return command
    engine, _, segmented = subject.name.partition("-")
    command = ["benchmarks.baselines.live", f"--engine={engine}", f"--model={model}"]
    if segmented:
        command.append("--segmented")
    return command


@contextlib.contextmanager
def _process(command: list[str], log: Path) -> Iterator[Running]:
    """Start a process in the baselines' environment, with all cores as threads."""
    if not PYTHON.exists():
        raise SystemExit("the baselines' environment is missing; run `make bench-env`")
    port = free_port()
    environment = VLLM_ENVIRONMENT | {"OMP_NUM_THREADS": "2"}
    module = [str(PYTHON), "-m", *command, f"--port={port}"]
    with listening(module, port, log, environment) as process:
        model = next((c[8:] for c in command if c.startswith("--model=")), "")
        yield Running(f"http://127.0.0.1:{port}", model, process)


def _warm_up(subject: Subject, server: Running) -> None:
    """Run a load that is not measured, for first contact and kernels of all shapes."""
    if subject.name == "vllm-openai":  # no live sessions: see recorded_rounds.py
        return
    load = Load(sessions=1, seconds=9.0)
    asyncio.run(run_trial(load, Planner(_WARM_UP, seed=0), subject.session, server.target(640)))
