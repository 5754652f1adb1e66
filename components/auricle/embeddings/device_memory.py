"""Memory of a device that holds embeddings, as a tensor of bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from auricle.embeddings.layout import Bytes
from auricle.embeddings.reads import Region


def as_bytes(rows: Bytes | torch.Tensor) -> torch.Tensor:
    """Return the bytes of whole rows, shape (bytes,), where they are."""
    tensor = rows if isinstance(rows, torch.Tensor) else torch.from_numpy(rows)
    return tensor.contiguous().view(-1).view(torch.uint8)


class DeviceMemory(ABC):
    """One allocation on a device. Work is queued there in the order of the calls of a thread."""

    kind: str  # by which another process opens it, see slabs.py

    @property
    @abstractmethod
    def bytes(self) -> torch.Tensor:
        """All of it, shape (bytes,)."""

    @property
    @abstractmethod
    def region(self) -> Region:
        """The same, for registration with NIXL."""

    @abstractmethod
    def handle(self) -> str:
        """Return what another process opens it by."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all that this thread has queued is done."""

    @abstractmethod
    def enter_thread(self) -> None:
        """Prepare the calling thread for work on the device."""

    @abstractmethod
    def close(self) -> None:
        """Let go of another process's memory; one's own ends with the process."""

    def put(self, at: int, rows: torch.Tensor) -> None:
        """Queue a copy of `rows`, bytes of the device or the host, to the offset `at`."""
        self.bytes[at : at + rows.numel()].copy_(rows, non_blocking=True)

    def open_now(self) -> None:
        """Open another process's memory. Raises ProcessFailed if the device refuses it."""
        _ = self.bytes

    def gather(self, pieces: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
        """Queue one copy of all `pieces` (offset, size), each to new memory of its own."""
        everything = self.bytes
        there = [everything[at : at + size] for at, size in pieces]
        found = [torch.empty_like(piece) for piece in there]
        torch._foreach_copy_(found, there)  # one kernel for all of them
        return found
