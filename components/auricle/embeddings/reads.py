"""Commands to a NIXL endpoint: reads of another process's memory, and notifications."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

# Sent when a read of several steps begins, to an owner that must drive progress for it.
READING = b"reading"


@dataclass(frozen=True)
class Region:
    """`size` bytes at `address`; `memory` is DRAM or VRAM, `device` its id (0 for DRAM)."""

    address: int
    size: int
    device: int = 0
    memory: str = "DRAM"


@dataclass(frozen=True)
class Step:
    """One transfer: `remote` regions into `local` ones, pairwise; one kind of memory per side."""

    remote: tuple[Region, ...]
    local: tuple[Region, ...]


@dataclass(frozen=True)
class SlotRegions:
    """The embeddings of a window, and the header that identifies them."""

    payload: Region
    header: Region


def payloads_then_headers(
    remote: Sequence[SlotRegions], local: Sequence[SlotRegions]
) -> tuple[Step, Step]:
    """Return the steps that read windows, pairwise: all embeddings, then all headers.

    The header, read second, verifies the embeddings (layout.py).
    """
    return (
        Step(tuple(p.payload for p in remote), tuple(p.payload for p in local)),
        Step(tuple(p.header for p in remote), tuple(p.header for p in local)),
    )


@dataclass(frozen=True)
class ReadRequest:
    """A read of one agent's memory in consecutive steps.

    NIXL delivers `notice` to that agent when the last step has finished. If a step ends after the
    deadline, the remaining steps are skipped and the notice is sent alone.
    """

    agent: str
    agent_metadata: bytes
    steps: tuple[Step, ...]
    notice: bytes
    deadline_seconds: float


@dataclass(frozen=True)
class Message:
    """A notification to another agent, without a read."""

    agent: str
    agent_metadata: bytes
    notice: bytes


class ThreadPing:
    """Asks the endpoint's thread for an answer."""

    def __init__(self) -> None:
        self.answer: Future[None] = Future()


class PendingRead:
    """A read in progress.

    `outcome` is its result. `ended` is set once NIXL can no longer write to the local
    regions, which may be much later than a timed-out `outcome`. A successful read took `seconds`.
    """

    def __init__(self, request: ReadRequest) -> None:
        self.request = request
        self.outcome: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.step = 0  # index of the step in progress
        self.handles: list[Any] = []  # NIXL's handles, in the order of the steps
        self.began = self.deadline = 0.0
        self.seconds = 0.0

    @property
    def in_last_step(self) -> bool:
        return self.step == len(self.request.steps) - 1


Command = PendingRead | Message | ThreadPing | None  # None wakes the thread


def resolve(future: Future[None], error: Exception | None) -> None:
    """Set result or error, unless the waiter has cancelled the future."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
