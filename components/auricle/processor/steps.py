"""How long the steps of a session's last chunks took, kept only while somebody looks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from auricle.messages.views import STEPS_KEPT_SECONDS, ChunkSteps
from auricle.processor.actions import Decode
from auricle.processor.usage import UsageMeter

_KEPT = 40


class StepLog:
    """The steps of one session's last 40 decodes. Used on the event loop, no I/O but the clock."""

    def __init__(self, usage: UsageMeter, clock: Callable[[], float] = time.monotonic) -> None:
        """`usage` is the session's; what a chunk cost is how much it has grown."""
        self.last_seconds = 0.0  # from audio to text, of the last chunk that had text
        self._usage = usage
        self._clock = clock
        self._until = float("-inf")
        self._chunks: deque[ChunkSteps] = deque(maxlen=_KEPT)

    def watch(self) -> tuple[ChunkSteps, ...]:
        """Return what was kept, and keep the steps of chunks for ten more seconds."""
        self._forget()
        self._until = self._clock() + STEPS_KEPT_SECONDS
        return tuple(self._chunks)

    @contextmanager
    def chunk(self, decode: Decode) -> Iterator[None]:
        """Measure the block as one decode; it may be cancelled or fail."""
        began, before = self._clock(), replace(self._usage)
        try:
            yield
        finally:
            now = self._clock()
            if self._usage.decodes > before.decodes:
                self.last_seconds = now - decode.arrived
            self._forget()
            if now < self._until:
                self._chunks.append(self._steps(decode, before, began, now))

    def _forget(self) -> None:
        if self._clock() >= self._until:
            self._chunks.clear()

    def _steps(self, decode: Decode, before: UsageMeter, began: float, now: float) -> ChunkSteps:
        after, skipped = self._usage, self._usage.decodes == before.decodes
        wait, whole = began - decode.arrived, now - decode.arrived
        mel = after.mel_seconds - before.mel_seconds
        encode = after.encode_seconds - before.encode_seconds
        read = after.read_seconds - before.read_seconds
        decoding = after.decode_seconds - before.decode_seconds
        return ChunkSteps(
            segment=decode.segment,
            audio_seconds=decode.audio_ms / 1000,
            final=decode.task.final,
            skipped=skipped,
            wait=wait,
            mel=mel,
            encode=encode,
            read=read,
            decode=max(0.0, decoding - read),
            rest=max(0.0, whole - wait - mel - encode - decoding),
            whole=whole,
            prompt_tokens=after.prompt_tokens - before.prompt_tokens,
            cached_tokens=after.cached_tokens - before.cached_tokens,
            output_tokens=after.output_tokens - before.output_tokens,
            bytes_read=after.embedding_bytes_read - before.embedding_bytes_read,
            encode_worker="" if skipped else after.encode_worker,
            pd_worker="" if skipped else after.pd_worker,
        )
