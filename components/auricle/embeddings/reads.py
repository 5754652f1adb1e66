"""What a NIXL endpoint is asked for: reads of another process's memory, and notifications."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Region:
    """`size` bytes at `address`; `memory` is DRAM or VRAM, `device` its id (0 for DRAM)."""

    address: int
    size: int
    device: int = 0
    memory: str = "DRAM"


@dataclass(frozen=True)
class ReadRequest:
    """A read of one agent's `remote` regions into the `local` ones, pairwise.

    NIXL delivers `notice` to that agent when the read has finished.
    """

    agent: str
    agent_metadata: bytes
    remote: tuple[Region, ...]
    local: tuple[Region, ...]
    notice: bytes
    deadline_seconds: float


@dataclass(frozen=True)
class Message:
    """A notification to another agent, without a read."""

    agent: str
    agent_metadata: bytes
    notice: bytes


class Question:
    """Whether the thread still runs."""

    def __init__(self) -> None:
        self.answer: Future[None] = Future()


class PendingRead:
    """A read in progress.

    `outcome` is its result. `ended` is set once NIXL can no longer write to the local
    regions, which may be much later than a timed-out `outcome`.
    """

    def __init__(self, request: ReadRequest) -> None:
        self.request = request
        self.outcome: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.handle: Any = None
        self.deadline = 0.0


Asked = PendingRead | Message | Question | None  # None wakes the thread


def settle(future: Future[None], error: Exception | None) -> None:
    """Set result or error, unless the waiter has cancelled the future."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
