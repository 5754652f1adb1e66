"""Messages between processor and PD worker."""

from __future__ import annotations

import msgspec

from auricle.messages.encoding import WindowRef


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
