"""JSON lines between the benchmark and a baseline, which runs in an environment of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import psutil


@dataclass(frozen=True)
class DecodeJob:
    """Greedy decoding of `head`, samples [start, end) of a file, and `tail`.

    `audio` is raw int16 at 16 kHz, mono; head and tail are token ids.
    """

    audio: str
    start: int
    end: int
    head: list[int]
    tail: list[int]
    max_tokens: int


@dataclass(frozen=True)
class DecodeResult:
    """The output without end of turn, and the job's seconds in all processes of the baseline."""

    tokens: list[int]
    wall_seconds: float
    cpu_seconds: float


Decode = Callable[[np.ndarray, DecodeJob], list[int]]


def cpu_seconds(process: psutil.Process) -> float:
    """Return user and system seconds of a process and its running descendants."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def serve(load: Callable[[], Decode]) -> None:
    """Answer jobs from standard input until its end; output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    decode = load()
    me = psutil.Process()
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        job = DecodeJob(**json.loads(line))
        samples = np.fromfile(
            job.audio, "<i2", count=job.end - job.start, offset=2 * job.start
        ).astype(np.float32)
        cpu, began = cpu_seconds(me), time.monotonic()
        tokens = decode(samples / np.float32(32768.0), job)
        result = DecodeResult(tokens, time.monotonic() - began, cpu_seconds(me) - cpu)
        print(json.dumps(asdict(result)), file=answers)
