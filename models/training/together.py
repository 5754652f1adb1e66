"""Processes that train one model together, each on batches of its own and with one thread.

On two cores that makes more steps an hour than one process with two threads, as most of a small
model's operations are too short to be divided.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing

_LONGEST_PAUSE = timedelta(hours=6)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def start(process: Callable[..., None], run: Any, processes: int) -> None:
    """Call `process(rank, run)` in each, until all are done.

    One alone runs here. Ctrl-C and SIGTERM go on to all of them, which end by themselves.
    """
    if processes == 1:
        process(0, run)
        return
    pids: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def tell(number: int, _: object) -> None:
        for pid in pids:
            os.kill(pid, number)

    for number in _SIGNALS:
        signal.signal(number, tell)
    try:
        context = multiprocessing.start_processes(
            process, (run,), nprocs=processes, daemon=True, join=False, start_method="spawn"
        )
        pids += context.pids()
        while not context.join():
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def meeting(place: Path, rank: int, processes: int) -> Iterator[None]:
    """Meet the other processes at a file, which is in a folder of the training."""
    if processes == 1:
        yield
        return
    torch.set_num_threads(1)
    address = place.absolute().as_uri()
    distributed.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=processes, timeout=_LONGEST_PAUSE
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


def share_gradients(parameters: Iterable[torch.nn.Parameter], number: float = 0.0) -> float:
    """Give each parameter that has a gradient the mean of all processes'; so with a `number`."""
    if not distributed.is_initialized():
        return number
    have = [(one, one.grad) for one in parameters if one.grad is not None]
    flat = torch.cat([*(gradient.flatten() for _, gradient in have), torch.tensor([number])])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    parts = flat.split([*(gradient.numel() for _, gradient in have), 1])
    for (parameter, gradient), part in zip(have, parts, strict=False):
        parameter.grad = part.view_as(gradient)
    return float(flat[-1])


def any_says(so: bool) -> bool:
    """Return whether any process does; all ask at the same step."""
    if not distributed.is_initialized():
        return so
    said = torch.tensor(float(so))
    distributed.all_reduce(said, distributed.ReduceOp.MAX)
    return bool(said)
