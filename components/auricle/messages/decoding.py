"""Messages between processor and PD worker."""

from __future__ import annotations

import msgspec

from auricle.messages.encoding import WindowRef


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
    has the log probability of each token. With `allowed` the output has these tokens only, and the
    log probabilities are those among them.
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

    `embedding_bytes_read` is what NIXL transferred for this request, and `steps` the number of
    decode steps, which run in sequence.
    `read_seconds` is how long it took until all its windows were there. `logprobs` are those of
    `tokens`; empty unless asked for.
    """

    tokens: tuple[int, ...]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    embedding_bytes_read: int
    steps: int = 0
    read_seconds: float = 0.0
    logprobs: tuple[float, ...] = ()
