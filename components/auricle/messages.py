"""Every message that crosses a process boundary, filed by receiver.

A request is one message; its reply is a message of the named type or a
`Refusal`. Embeddings are in none of them: they travel by NIXL.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from auricle.audio.features import FeaturePacket

# Audio between two decodes of a session.
MIN_CHUNK_MS, MAX_CHUNK_MS = 80, 10_000


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Any component, instead of its reply. `code` is an `AuricleError.code`."""

    code: str
    message: str
    keys: tuple[str, ...] = ()
    retry_after_seconds: float = 0.0


# ── to the processor ────────────────────────────────────────────────────────


class ResumePoint(msgspec.Struct, frozen=True):
    """Where another processor can go on, given the audio from `segment_start`."""

    segment: int = 0
    segment_start: int = 0
    committed_tokens: tuple[int, ...] = ()
    context: str = ""


class AdmitSession(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor, before a client is let in; refused as `overloaded`."""

    tenant: str


class Admitted(msgspec.Struct, frozen=True, tag=True):
    """Processor's reply: the session's cadence is to be `stretch` times what was asked."""

    stretch: int


class OpenSession(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor; answered by a stream of `SessionEvent`s.

    `context` is the user's own context text; `language` None means detect. Without
    `partials` only whole segments are decoded, once each. `background` work, such as
    recordings, gives way to live sessions everywhere. `trace` is the W3C traceparent of
    what the request is part of, here and in the requests below; empty for none.
    """

    session: str
    tenant: str
    language: str | None
    context: str
    chunk_ms: int
    partials: bool = True
    background: bool = False
    resume: ResumePoint = ResumePoint()
    trace: str = ""


# What the end of a piece of audio is: nothing special, a short silence where a long
# segment may end, or the end of speech, which ends its segment.
Boundary = Literal["none", "pause", "endpoint"]


class PushAudio(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor; `pcm` is 16 kHz mono int16, little-endian.

    With `features` there is no `pcm`; the client computed them, and a packet that is the
    last of its segment is an endpoint.

    Idempotent: samples before what was already received are ignored. After an
    endpoint the next piece may start later: the silence between is never sent.
    """

    session: str
    tenant: str
    start_sample: int
    pcm: bytes
    boundary: Boundary = "none"
    features: FeaturePacket | None = None


class EndAudio(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor: the session has `total_samples`, silence included."""

    session: str
    tenant: str
    total_samples: int


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """Processor's reply: audio received so far, in samples of the session."""

    received_samples: int


# ── to the frontend ─────────────────────────────────────────────────────────


class SessionReady(msgspec.Struct, frozen=True, tag=True):
    """First event of a session."""

    session: str


class Usage(msgspec.Struct, frozen=True):
    """What a session cost so far. `*_tokens` are those of all decodes.

    `decode_steps` counts forward passes that gave output, one after the other.
    `decodes_skipped` counts grid points given up for lack of room or for the segment's end.
    """

    audio_ms: int = 0
    decodes: int = 0
    decodes_skipped: int = 0
    windows_encoded: int = 0
    blocks_convolved: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    embedding_bytes_read: int = 0


class Partial(msgspec.Struct, frozen=True, tag=True):
    """Text after one decode: `committed` will not change, `partial` may."""

    segment: int
    committed: str
    partial: str
    audio_ms: int
    language: str
    resume: ResumePoint


class Final(msgspec.Struct, frozen=True, tag=True):
    """The finished text of one segment; starts with all that was committed of it."""

    segment: int
    text: str
    start_ms: int
    end_ms: int
    language: str
    resume: ResumePoint


class Done(msgspec.Struct, frozen=True, tag=True):
    """Last event of a session that went well."""

    usage: Usage


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Last event of a session that did not."""

    code: str
    message: str


SessionEvent = SessionReady | Partial | Final | Done | Failed


# ── to the encode worker ────────────────────────────────────────────────────


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


# ── to the PD worker ────────────────────────────────────────────────────────


class DecodeWindow(msgspec.Struct, frozen=True):
    """A window of the prompt; without `ref` it must be on the PD worker already."""

    key: str
    length: int
    partial: bool
    ref: WindowRef | None = None


class DecodeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → PD worker; answered by `DecodeReply`.

    The prompt is `head`, one audio item per window, `tail` (template and the
    forced transcript prefix). Decoding is greedy until end of turn. `draft` is what
    the output will probably begin with; it is verified, and never changes the output.
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


class DecodeReply(msgspec.Struct, frozen=True, tag=True):
    """`finish` is `stop` (end of turn) or `length`; bytes are those NIXL moved for this request.

    `steps` is how many forward passes gave output, one after the other.
    """

    tokens: tuple[int, ...]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    embedding_bytes_read: int
    steps: int = 0
