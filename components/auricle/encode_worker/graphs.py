"""Recording what a pass asks of the device, to be repeated at the cost of one call.

A pass is some hundred small kernels, which Python starts more slowly than a GPU works them off.
A recorded function reads and writes the same memory each time: callers fill its inputs before
`replay` and take the output before the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

_RUNS_BEFORE = 2  # in which libraries allocate their workspaces and choose kernels


class Recording(Protocol):
    """A recorded function."""

    def replay(self) -> torch.Tensor:
        """Run it on what its inputs contain now; the next replay overwrites what it returns."""
        ...


class Recorder(Protocol):
    """Records functions that read and write memory which stays where it is."""

    def capture(self, function: Callable[[], torch.Tensor]) -> Recording:
        """Run and record a function, which must not wait for the device."""
        ...


class CudaGraphs:
    """Records CUDA graphs, which share their working memory: one of them runs at a time."""

    def __init__(self) -> None:
        self._pool: Any = None  # of the first; torch gives its type no public name

    def capture(self, function: Callable[[], torch.Tensor]) -> Recording:
        """Raises RuntimeError if the function waits for the device."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_RUNS_BEFORE):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # NIXL's thread may call CUDA meanwhile, so only this thread's calls are watched.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            output = function()
        return _CudaGraph(graph, output)


class _CudaGraph:
    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor) -> None:
        self._graph = graph
        self._output = output

    def replay(self) -> torch.Tensor:
        self._graph.replay()
        return self._output


class EagerStandIn:
    """In place of CUDA graphs where there are none: a replay calls the function again."""

    def capture(self, function: Callable[[], torch.Tensor]) -> Recording:
        """Raises what the function raises."""
        return _Eager(function, function())


class _Eager:
    def __init__(self, function: Callable[[], torch.Tensor], output: torch.Tensor) -> None:
        self._function = function
        self._output = output

    def replay(self) -> torch.Tensor:
        return self._output.copy_(self._function())
