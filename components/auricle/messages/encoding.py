"""Messages between processor and encode worker."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class BlockFeatures(msgspec.Struct, frozen=True):
    """One second of a window, or its shorter last block: one input of the conv stack.

    `log_mel` holds *unclamped* log10 mel energies, float32 (frames, 128) in C order; None if
    this encode worker should still cache the conv output of `key`. A `final` block no longer
    changes, so its output is cached for requests made while the window grows.
    """

    key: str
    frames: int
    final: bool
    log_mel: bytes | None


class WindowFeatures(msgspec.Struct, frozen=True):
    """One window to encode; a `partial` window may still grow.

    The encode worker clamps the mel energies to at least `floor`. `supersedes` is the key of
    an earlier, shorter state of the same window. `context` of the blocks come before the window:
    what an encoder needs that hears audio by what was before it. The first of them may be left to
    what it has kept (`log_mel` None); with features it is one with nothing before it.
    """

    key: str
    floor: float
    blocks: tuple[BlockFeatures, ...]
    partial: bool
    supersedes: str | None = None
    context: int = 0

    @property
    def frames(self) -> int:
        """Mel frames of the whole window, without its context."""
        return sum(block.frames for block in self.blocks[self.context :])

    def keys(self) -> Iterator[str]:
        """Yield every key that this message names."""
        yield self.key
        if self.supersedes is not None:
            yield self.supersedes
        for block in self.blocks:
            yield block.key


class SpoiledSlot(msgspec.Struct, frozen=True):
    """A slot whose content, of that `generation`, a reader found to be wrong."""

    agent: str
    slot: int
    generation: int


class EncodeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → encode worker; answered by `EncodeReply`.

    With `ahead`, only the conv stack runs, over final blocks. `background` requests yield to
    live ones. `spoiled` slots are evicted first, so that their windows are encoded again; those
    of other agents are ignored.
    """

    session: str
    tenant: str
    windows: tuple[WindowFeatures, ...]
    background: bool = False
    trace: str = ""
    ahead: bool = False
    spoiled: tuple[SpoiledSlot, ...] = ()


class WindowRef(msgspec.Struct, frozen=True):
    """Where a window's `length` embeddings can be read until its lease expires.

    `agent` and `agent_metadata` identify the NIXL agent; `address`, `size` (bytes), `device` and
    `memory` say where the embeddings are, `header` is the address of their header, which is in host
    memory; `slot` and `generation` are its content's.
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
    header: int
    slot: int
    generation: int
    lease: int


class EncodeReply(msgspec.Struct, frozen=True, tag=True):
    """Refs in the order of the request's windows; none for a request with `ahead`.

    `encoded` and `convolved` count the windows and blocks that were not in the cache.
    """

    windows: tuple[WindowRef, ...]
    encoded: int
    convolved: int = 0
