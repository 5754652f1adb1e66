"""Audio of a client in real time, and the times at which its text arrives."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import numpy as np

from auricle.audio.pcm import Int16
from auricle.tools.load_generation.pacing import paced

SAMPLE_RATE = 16_000
_PER_SECOND = 10
# Longer than any measurement.
SECONDS = 120.0


@dataclass(frozen=True)
class Outcome:
    """A text, and seconds from the audio's begin to its first part, from its end to its last.

    `kept`: to the first part that is never taken back. None where the protocol has no such time.
    """

    text: str
    first: float | None = None
    last: float | None = None
    kept: float | None = None


@dataclass
class Speaking:
    """One session at its client; times are monotonic."""

    began: float = field(default_factory=time.monotonic)
    stopped: float | None = None
    first: float | None = None
    last: float | None = None
    kept: float | None = None
    texts: list[str] = field(default_factory=list)

    def shown(self, text: str, kept: str = "") -> None:
        """Note text that may still change, after `kept`, which will not."""
        now = time.monotonic()
        if kept and self.kept is None:
            self.kept = now
        if (kept or text) and self.first is None:
            self.first = now

    def final(self, text: str) -> None:
        """Note a part of the final text."""
        self.shown("", text)
        self.last = time.monotonic()
        if text.strip():
            self.texts.append(text.strip())

    def stop(self) -> None:
        """Note the end of the audio."""
        self.stopped = time.monotonic()

    def outcome(self) -> Outcome:
        """Return text and times."""
        first = None if self.first is None else self.first - self.began
        kept = None if self.kept is None else self.kept - self.began
        ends = None if self.stopped is None or self.last is None else self.last - self.stopped
        return Outcome(" ".join(self.texts), first, None if ends is None else max(ends, 1e-4), kept)

    async def packets(self, pcm: Int16, rate: int = SAMPLE_RATE) -> AsyncIterator[Int16]:
        """Yield 100 ms at a time, each when it has been spoken."""
        async for _, packet in paced(pcm, rate // _PER_SECOND, self.began, rate):
            yield packet
        self.stop()

    def blocking_packets(self, pcm: Int16, rate: int = SAMPLE_RATE) -> Iterator[Int16]:
        """The same for clients that have threads."""
        size = rate // _PER_SECOND
        for at in range(0, len(pcm), size):
            packet = pcm[at : at + size]
            time.sleep(max(0.0, self.began + (at + len(packet)) / rate - time.monotonic()))
            yield packet
        self.stop()


def with_silence(pcm: Int16, seconds: float = 1.5) -> Int16:
    """Return audio with silence after it, in which the end of speech is detected."""
    return np.concatenate([pcm, np.zeros(int(seconds * SAMPLE_RATE), np.int16)])
