"""The cost of a session, summed over the replies to its requests."""

from __future__ import annotations

from auricle.messages import DecodeReply, EncodeReply, Usage


class UsageMeter:
    """Sums the cost of a session; the fields are those of `Usage`. Used on the event loop."""

    def __init__(self) -> None:
        self.decodes = 0
        self.decodes_skipped = 0
        self.windows_encoded = 0
        self.blocks_convolved = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self.decode_steps = 0
        self.embedding_bytes_read = 0

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

    def skipped(self) -> None:
        """Count a partial decode that was refused, or cancelled for the segment's end."""
        self.decodes_skipped += 1

    def report(self, audio_ms: int) -> Usage:
        """Return the sums after `audio_ms` of audio."""
        return Usage(
            audio_ms=audio_ms,
            decodes=self.decodes,
            decodes_skipped=self.decodes_skipped,
            windows_encoded=self.windows_encoded,
            blocks_convolved=self.blocks_convolved,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            decode_steps=self.decode_steps,
            embedding_bytes_read=self.embedding_bytes_read,
        )
