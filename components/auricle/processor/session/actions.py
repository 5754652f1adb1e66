"""The actions that a `Session` returns to its driver."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.protocol.sessions import SessionEvent


@dataclass(frozen=True)
class DecodeTask:
    """The prompt around the audio as token ids, and the limits of the answer.

    `head` precedes the audio and `tail` follows it. `final`: the answer ends the segment.
    `draft` is the part of the last hypothesis that is decoded again, for speculative decoding.
    `trace` is the W3C traceparent of the parent span, or empty. `background`: it yields to live
    sessions, because its client is ahead of real time. `logprobs`: the answer has the log
    probabilities of its tokens. `plain_head` is the head without the client's context, None if it
    gave none. With `allowed` the answer has these tokens only.
    """

    head: tuple[int, ...]
    tail: tuple[int, ...]
    max_tokens: int
    final: bool
    draft: tuple[int, ...] = ()
    trace: str = ""
    background: bool = False
    logprobs: bool = False
    plain_head: tuple[int, ...] | None = None
    allowed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Decode:
    """Decode the open segment's first `samples` samples, then call `decoded` or `skipped`.

    `segment` is the segment's number and `audio_ms` the position in the session. `arrived` is
    the time at which the last of the samples were received, in seconds of the driver's clock;
    `due` the time at which the first grid point without a decode was complete.
    """

    samples: int
    task: DecodeTask
    segment: int
    audio_ms: int
    arrived: float
    due: float


@dataclass(frozen=True)
class EncodeAhead:
    """Have the open segment's finished blocks (1 s) encoded, then call `encoded_ahead`."""


@dataclass(frozen=True)
class Abandon:
    """Cancel the work in progress, because the segment's end has arrived and its final is due.

    Call `skipped` if it is a partial decode, `encoded_ahead` otherwise. If it ends before it is
    cancelled, its result counts.
    """

    work: Decode | EncodeAhead


@dataclass(frozen=True)
class Send:
    """Send the event to the frontend."""

    event: SessionEvent


@dataclass(frozen=True)
class Finish:
    """All text is final: send `Done` with the session's usage; its audio ends at `audio_ms`."""

    audio_ms: int


Action = Send | Decode | EncodeAhead | Abandon | Finish
