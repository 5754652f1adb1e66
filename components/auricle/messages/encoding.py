"""Messages between processor and encode worker."""

from __future__ import annotations

import msgspec


class BlockFeatures(msgspec.Struct, frozen=True):
    """One second of a window, or its last rest: what the conv stack sees at once.

    `log_mel` is float32 (frames, 128), C order, *unclamped* log10 mel energies; None
    if this encode worker should still have the conv output of `key`. `final` blocks
    will be asked for again while their window grows.
    """

    key: str
    frames: int
    final: bool
    log_mel: bytes | None


class WindowFeatures(msgspec.Struct, frozen=True):
    """One window to encode.

    Values below `floor` are raised to it where the window is encoded. `supersedes`
    is the key of an earlier, shorter state of the same window.
    """

    key: str
    floor: float
    blocks: tuple[BlockFeatures, ...]
    partial: bool
    supersedes: str | None = None

    @property
    def frames(self) -> int:
        """Mel frames of the whole window."""
        return sum(block.frames for block in self.blocks)


class EncodeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → encode worker. `ahead`: only the conv stack, over blocks that are final."""

    session: str
    tenant: str
    windows: tuple[WindowFeatures, ...]
    background: bool = False
    trace: str = ""
    ahead: bool = False


class WindowRef(msgspec.Struct, frozen=True):
    """Where a window's embeddings can be read until its lease runs out.

    `agent` and `agent_metadata` identify the NIXL agent; `address`, `size` and
    `device` the memory (slot header included); `generation` the slot's content.
    """

    key: str
    fingerprint: str
    dtype: str
    length: int
    agent: str
    agent_metadata: bytes
    address: int
    size: int
    device: int
    memory: str
    slot: int
    generation: int
    lease: int


class EncodeReply(msgspec.Struct, frozen=True, tag=True):
    """Refs in the order of the request.

    `encoded` counts windows not found in the cache, `convolved` blocks likewise.
    """

    windows: tuple[WindowRef, ...]
    encoded: int
    convolved: int = 0
