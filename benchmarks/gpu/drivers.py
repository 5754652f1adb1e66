"""Starts the driver processes, and runs trials on them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.baselines.client import end
from benchmarks.gpu.measurements import Trial
from benchmarks.prepared import ROOT

_Process = subprocess.Popen[str]
_STOPPING_SECONDS = 10.0


class Drivers:
    """Processes that share the streams of each trial."""

    def __init__(self, processes: Sequence[_Process]) -> None:
        self._processes = processes

    def trial(self, streams: int, settle_seconds: float, seconds: float) -> Trial:
        """Run `streams` streams at a time. Raises RuntimeError if a driver ends."""
        share, rest = divmod(streams, len(self._processes))
        for number, process in enumerate(self._processes):
            trial = {
                "streams": share + (number < rest),
                "settle_seconds": settle_seconds,
                "seconds": seconds,
            }
            _tell(process, trial)
        return Trial.of(streams, [_answer(process) for process in self._processes])


@contextlib.contextmanager
def driving(
    count: int, config: Path, overrides: Sequence[str], segment_seconds: float
) -> Iterator[Drivers]:
    """Run `count` drivers of the pools of a configuration until the block ends.

    Raises RuntimeError if a driver ends before it is ready.
    """
    # They compute features and tokens, with one thread each, and do not use a GPU.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with contextlib.ExitStack() as stack:
        processes = []
        for number in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu.driver"],
                cwd=ROOT, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            stack.callback(_stop, process)
            processes.append(process)
            start = {
                "config": str(config),
                "overrides": list(overrides),
                "segment_seconds": segment_seconds,
                "number": number,
            }
            _tell(process, start)
        for process in processes:
            _answer(process)  # it is ready
        try:
            yield Drivers(processes)
        finally:
            for process in processes:
                assert process.stdin is not None
                process.stdin.close()  # ends it after its answer


def _stop(process: _Process) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOPPING_SECONDS)
    end(process)


def _tell(process: _Process, message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def _answer(process: _Process) -> dict[str, Any]:
    """Return the next answer, without a deadline: the whole part has one."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.startswith("{"):  # others are Dynamo's
            answer: dict[str, Any] = json.loads(line)
            return answer
    raise RuntimeError("a driver has ended; see above")
