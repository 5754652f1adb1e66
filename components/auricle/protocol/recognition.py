"""Messages between processor and encode worker, and between processor and PD worker."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class BlockFeatures(msgspec.Struct, frozen=True):
    """One second of a window, or its shorter last block: one input of the conv stack.

    `log_mel` holds *unclamped* log10 mel energies, float32 (frames, 128) in C order; None if
    this encode worker should still cache the conv output of `key`. A `final` block no longer
    changes, so its output is cached for later requests while the window grows.
    """

    key: str
    frames: int
    final: bool
    log_mel: bytes | None


class WindowFeatures(msgspec.Struct, frozen=True):
    """One window to encode; a `partial` window may still grow.

    The encode worker clamps the mel energies to at least `floor`. `supersedes` is the key of an
    earlier, shorter state of the same window. The first `context` blocks precede the window, for an
    encoder that attends to the past. The first of them may rely on cached state (`log_mel` None);
    with features, nothing precedes it.
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
    """A slot whose content of this `generation` a reader found to be corrupt."""

    agent: str
    slot: int
    generation: int


class EncodeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → encode worker; answered by `EncodeReply`.

    With `ahead`, only the conv stack runs, over final blocks. `background` requests yield to
    live ones. `spoiled` slots are evicted first, so that their windows are encoded again; slots of
    other agents are ignored.
    """

    session: str
    tenant: str
    windows: tuple[WindowFeatures, ...]
    background: bool = False
    trace: str = ""
    ahead: bool = False
    spoiled: tuple[SpoiledSlot, ...] = ()


class WindowRef(msgspec.Struct, frozen=True):
    """The location of a window's `length` embeddings until the lease expires.

    `agent` and `agent_metadata` identify the NIXL agent; `address`, `size` (bytes), `device` and
    `memory` locate the embeddings, `header` is the address of their header in host memory; `slot`
    and `generation` identify the content.
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


class DecodeWindow(msgspec.Struct, frozen=True):
    """A window of the prompt, of `length` embeddings; without `ref` the PD worker must have it."""

    key: str
    length: int
    partial: bool
    ref: WindowRef | None = None


class DecodeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → PD worker; answered by `DecodeReply`.

    The prompt consists of `head`, one audio item per window, and `tail` (template and forced
    transcript prefix), as token ids. Decoding is greedy until end of turn or `max_tokens`.
    `draft` is a guess of the output, which is verified and cannot change it. `final` marks the
    last decode of a segment; `background` requests yield to live ones. With `logprobs` the reply
    has the log probability of each token. `allowed` restricts the output to these tokens, and the
    log probabilities are normalized over them.
    """

    session: str
    tenant: str
    request: str
    head: tuple[int, ...]
    windows: tuple[DecodeWindow, ...]
    tail: tuple[int, ...]
    max_tokens: int
    final: bool
    draft: tuple[int, ...] = ()
    background: bool = False
    trace: str = ""
    logprobs: bool = False
    allowed: tuple[int, ...] = ()


class DecodeReply(msgspec.Struct, frozen=True, tag=True):
    """The output's token ids; `finish` is `stop` (end of turn) or `length`.

    NIXL transferred `embedding_bytes_read` for this request, in `read_seconds`. `steps` is the
    number of decode steps, which run in sequence. `logprobs` belong to `tokens`; empty unless
    requested.
    """

    tokens: tuple[int, ...]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    embedding_bytes_read: int
    steps: int = 0
    read_seconds: float = 0.0
    logprobs: tuple[float, ...] = ()
