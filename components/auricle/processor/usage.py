"""The cost of a session, summed over the replies to its requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from auricle.protocol.recognition import DecodeReply, EncodeReply
from auricle.protocol.stream import Usage


@dataclass
class UsageMeter:
    """Sums the cost of a session. Used on the event loop.

    The first fields are summed into `Usage`. The seconds are spent in decodes: log-mel, calls of
    encode workers, calls of PD workers, and the reads within them. The workers (hex ids) served
    the last decode.
    """

    decodes: int = 0
    decodes_skipped: int = 0
    windows_encoded: int = 0
    blocks_convolved: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    embedding_bytes_read: int = 0
    mel_seconds: float = 0.0
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    read_seconds: float = 0.0
    encode_worker: str = ""
    pd_worker: str = ""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def encoded(self, reply: EncodeReply) -> None:
        """Add the reply to an encode request."""
        self.windows_encoded += reply.encoded
        self.blocks_convolved += reply.convolved

    def decoded(self, reply: DecodeReply) -> None:
        """Add the reply to a decode request."""
        self.decodes += 1
        self.prompt_tokens += reply.prompt_tokens
        self.cached_tokens += reply.cached_tokens
        self.output_tokens += len(reply.tokens)
        self.decode_steps += reply.steps
        self.embedding_bytes_read += reply.embedding_bytes_read
        self.read_seconds += reply.read_seconds

    def placed(self, encode_worker: str, pd_worker: str) -> None:
        """Store the workers of the last decode."""
        self.encode_worker, self.pd_worker = encode_worker, pd_worker

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time that the block takes, however it ends, to `mel`, `encode` or `decode`."""
        name, began = f"{step}_seconds", self.clock()
        try:
            yield
        finally:
            setattr(self, name, getattr(self, name) + self.clock() - began)

    def skipped(self) -> None:
        """Count a partial decode that was refused, or cancelled for the segment's end."""
        self.decodes_skipped += 1

    def report(self, audio_ms: int) -> Usage:
        """Return the sums after `audio_ms` of audio."""
        counted = {name: getattr(self, name) for name in Usage.__struct_fields__[1:]}
        return Usage(audio_ms, **counted)
