"""One session in real time, as at a microphone, and the latencies of its text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME, VoiceActivityModel, VoiceState
from auricle.client import Client, Final, Partial
from auricle.tools.load_generation.pacing import paced

_PACKETS_PER_SECOND = 10
_SPEECH = 0.5
_AFTER = 0.1  # s of the recording after its speech


@dataclass(frozen=True)
class Timed:
    """Seconds from the onset of speech to the first text, and from the end of audio to the last.

    None if no text came.
    """

    text: str
    first: float | None
    final: float | None


@dataclass
class _Session:
    """Times are monotonic."""

    began: float = 0.0
    stopped: float = 0.0
    first: float | None = None
    last: float = 0.0
    texts: list[str] = field(default_factory=list)

    async def packets(self, pcm: Int16) -> AsyncIterator[Int16]:
        """Yield each packet when it has been spoken."""
        size = SAMPLE_RATE // _PACKETS_PER_SECOND
        self.began = time.monotonic()
        async for _, packet in paced(pcm, size, self.began):
            yield packet
        self.stopped = time.monotonic()

    def text(self, shown: str) -> None:
        """Note text that is shown."""
        if shown.strip() and self.first is None:
            self.first = time.monotonic()


async def timed(url: str, pcm: Int16, language: str | None) -> Timed:
    """Stream a recording in real time, up to the end of its speech."""
    onset, end = speech(pcm)
    pcm = pcm[: int((end + _AFTER) * SAMPLE_RATE)]
    session = _Session()
    events = Client([url]).stream(session.packets(pcm), partials=True, live=True, language=language)
    async for event in events:
        if isinstance(event, Partial):
            session.text(event.committed + event.partial)
        elif isinstance(event, Final):
            session.text(event.text)
            session.texts.append(event.text)
            session.last = time.monotonic()
    text = " ".join(session.texts)
    if session.first is None:
        return Timed(text, None, None)
    first = session.first - session.began - onset
    return Timed(text, first, max(0.0, session.last - session.stopped))


def speech(pcm: Int16) -> tuple[float, float]:
    """Return start and end (s) of the speech that voice activity finds; of all audio if none."""
    state = VoiceState()
    (found,) = VoiceActivityModel().probabilities([(state, state.frames(pcm, last=True))])
    (heard,) = np.nonzero(found >= _SPEECH)
    if not len(heard):
        return 0.0, len(pcm) / SAMPLE_RATE
    return heard[0] * VAD_FRAME / SAMPLE_RATE, (heard[-1] + 1) * VAD_FRAME / SAMPLE_RATE
