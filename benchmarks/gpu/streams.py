"""The live streams that the pools carry: drivers call real encode and PD workers over Dynamo.

The graph has no frontend, because a frontend needs a core for every 64 to 120 sessions and would
limit the result.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from auricle.tools.load_generation.search import most_carried
from benchmarks.baselines.client import end
from benchmarks.checkpoints import TOKENS_PER_SECOND
from benchmarks.gpu.busy import Busy, gpu_busy
from benchmarks.gpu.drivers import Drivers, driving
from benchmarks.gpu.found import Found, Task
from benchmarks.gpu.measurements import Trial
from benchmarks.gpu.placement import placed
from benchmarks.load.usage import Usage, measured
from benchmarks.prepared import ROOT, checkpoint

_GRAPH = "graphs.e_pd:Processor"  # this processor gets no sessions
_CPU = "configs/demo.yaml"
_ONE_GPU, _MORE_GPUS = "configs/h100-0.6b-shared.yaml", "configs/h100x8-0.6b.yaml"
_READY, _READY_SECONDS = "auricle ready", 300.0
# A trial begins only if the part can still end in time.
_BUDGET_SECONDS, _STOPPING_SECONDS = 600.0, 60.0
_SELDOM = 3600.0  # memory is not measured
_CORES = {
    "cores_encode_worker": "EncodeWorker",
    "cores_pd_worker": "PdWorker",
    "cores_vllm_engine": "vLLM engine",
}


@contextlib.contextmanager
def pools(config: Path, overrides: Sequence[str], log: Path) -> Iterator[psutil.Process]:
    """Run the workers of a configuration until the block ends; yield their launcher.

    Raises RuntimeError with the end of the log if they do not become ready.
    """
    command = [sys.executable, "-m", "auricle", "serve", _GRAPH, "-f", str(config), *overrides]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"DYN_LOG": "warn"},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            _wait_until_ready(process, log)
            yield psutil.Process(process.pid)
        finally:
            end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _READY in log.read_text(errors="replace"):
            return
        time.sleep(0.2)
    lines = log.read_text(errors="replace").splitlines()
    raise RuntimeError("the workers did not become ready: " + " | ".join(lines[-5:]))


class Search:
    """Trials on running pools; `usages` are the CPU seconds of each number of streams."""

    def __init__(self, task: Task, drivers: Drivers, launcher: psutil.Process) -> None:
        self._task, self._drivers, self._launcher = task, drivers, launcher
        self.trials: dict[int, Trial] = {}
        self.usages: dict[int, Usage] = {}
        self.busy: dict[int, Busy] = {}

    def carried(self, streams: int) -> bool:
        """Run a trial. Its usage includes the work that is done while speakers settle."""
        scale = self._task.scale
        with (
            measured(self._launcher, memory_every=_SELDOM) as usage,
            gpu_busy(self._task.device, self._task.gpus) as busy,
        ):
            trial = self._drivers.trial(streams, scale.segment_seconds, scale.trial_seconds)
        self.trials[streams], self.usages[streams], self.busy[streams] = trial, usage, busy
        print(trial.plain(), flush=True)
        return not trial.beyond

    def publish(self, capacity: int, found: Found) -> None:
        """Store the figures at the knee, and all trials in the details."""
        tried = capacity if self.trials else None
        found.put("streams_in_slo_0_6b", tried, "the pools took too long to start")
        found.details["trials"] = [self.trials[n].plain() for n in sorted(self.trials)]
        above = [n for n in sorted(self.trials) if n > capacity]
        found.details["bound"] = self.trials[above[0]].beyond if above else "not reached"
        nothing = "not even one stream was carried"
        trial, usage = self.trials.get(capacity), self.usages.get(capacity)
        busy = self.busy.get(capacity, Busy(nothing))
        for name in ("lag_p95_ms", "final_p95_ms", "decoded_share"):
            value = getattr(trial, name) if trial else None
            found.put(f"streams_{name}", value, "no session ended a segment" if trial else nothing)
        found.put("streams_gpu_busy_share", busy.share, busy.why_not)
        for figure, process in _CORES.items():
            cores = usage.cpu_seconds[process] / usage.seconds if usage else None
            found.put(figure, cores, nothing)
        found.put("cores_drivers", trial.driver_cores if trial else None, nothing)


def measure(task: Task) -> Found:
    """Start the pools of the configuration, and find the knee."""
    began, scale, found = time.monotonic(), task.scale, Found()
    config = ROOT / (task.config or _config(task))  # an absolute path replaces ROOT
    trial_seconds = scale.segment_seconds + scale.trial_seconds

    def time_left() -> bool:
        needed = trial_seconds + _STOPPING_SECONDS
        return time.monotonic() - began + needed < _BUDGET_SECONDS

    with tempfile.TemporaryDirectory(prefix="auricle-streams-") as directory:
        discovery = Path(directory) / "discovery"
        discovery.mkdir(mode=0o700)
        overrides = _overrides(task, discovery)
        with (
            pools(config, overrides, Path(directory) / "pools.log") as launcher,
            driving(scale.drivers, config, overrides, scale.segment_seconds) as drivers,
        ):
            drivers.trial(scale.drivers, 1.0, 2.0)  # first contact
            search = Search(task, drivers, launcher)
            capacity = most_carried(
                search.carried, scale.first, most=scale.most, resolution=scale.resolution,
                time_left=time_left,
            )  # fmt: skip
    found.details["config"] = task.config or _config(task)
    search.publish(capacity, found)
    return found


def _config(task: Task) -> str:
    if not task.on_gpu:
        return _CPU
    return _ONE_GPU if task.gpus == 1 else _MORE_GPUS


def _overrides(task: Task, discovery: Path) -> list[str]:
    """Return the overrides of the configuration: the model, and the length of its texts.

    Random weights do not end a text, so a limit sets its length to the length of speech.
    """
    several = placed(task.gpus).overrides() if task.on_gpu and task.gpus > 1 else []
    return [
        f"--Common.model={checkpoint(task.scale.checkpoint)}",
        f"--Common.dtype={task.dtype}",
        f"--Common.discovery_path={discovery}",
        f"--Processor.max_tokens_per_second={TOKENS_PER_SECOND}",
        "--Processor.min_new_tokens=1",
        "--Processor.loop_guard=false",  # random weights answer up to their limit
        "--Processor.replicas=1",  # it is idle
        *several,
    ]
