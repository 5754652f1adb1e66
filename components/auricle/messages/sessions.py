"""Messages between frontend and processor, filed by receiver."""

from __future__ import annotations

from typing import Literal

import msgspec

from auricle.audio.features import FeaturePacket

# Audio between two decodes of a session.
MIN_CHUNK_MS, MAX_CHUNK_MS = 80, 10_000


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


class HandedOver(msgspec.Struct, frozen=True, tag=True):
    """Last event of a session that another processor is to go on with, from `resume`."""

    resume: ResumePoint


SessionEvent = SessionReady | Partial | Final | Done | Failed | HandedOver
