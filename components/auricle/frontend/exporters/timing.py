"""Measures how long a session's client waits for text. No I/O but the clock."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Protocol

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.audio.chunks import AudioChunk, FeatureChunk
from auricle.protocol.sessions import SegmentFinal, SegmentPartial, SessionEvent

_KEPT = 2_000  # pieces whose arrival times are kept: some minutes of audio


class Waits(Protocol):
    """Records latencies; all arguments are in seconds."""

    def chunk_lag(self, seconds: float) -> None:
        """The time from the audio of a decoded grid point to its partial."""

    def first_partial(self, seconds: float) -> None:
        """The time from the first audio of speech to its first partial with text."""

    def stop_to_final(self, seconds: float) -> None:
        """The time from detecting the end of speech to the segment's final text."""

    def audio(self, *, received: float = 0.0, speech: float = 0.0) -> None:
        """Count audio received from the client, and audio of speech."""


class SessionTimer:
    """Measures the latencies of one live session, as an observer of its link."""

    def __init__(
        self,
        waits: Waits,
        clock: Callable[[], float] = time.monotonic,
        on_text: Callable[[int, float], None] = lambda _audio_ms, _seconds: None,
    ) -> None:
        """`on_text` is called with the end of each text in ms, and the seconds since that audio."""
        self._waits = waits
        self._clock = clock
        self._on_text = on_text
        self._ends: list[int] = []  # ends of the pieces in session samples, ascending
        self._times: list[float] = []  # arrival times of the pieces
        # Arrival times of the first audio of each utterance whose text is not final yet.
        self._begun: list[float] = []
        self._between = True
        self._spoken = False  # the oldest such utterance has had a partial with text
        self._stopped: list[tuple[int, float]] = []  # ends of speech: session sample, time

    def on_audio(self, piece: AudioChunk | FeatureChunk) -> None:
        """A piece of audio arrived."""
        self._waits.audio(speech=(piece.end - piece.start) / SAMPLE_RATE)
        now = self._clock()
        if self._between:
            self._begun.append(now)
        self._between = piece.boundary == "endpoint"
        self._ends.append(piece.end)
        self._times.append(now)
        if len(self._ends) > _KEPT:
            del self._ends[: _KEPT // 2], self._times[: _KEPT // 2]
        if self._between:
            self._stopped.append((piece.end, now))

    def on_event(self, event: SessionEvent) -> None:
        """An event is about to be sent to the client."""
        if isinstance(event, SegmentPartial):
            self._partial(event)
        elif isinstance(event, SegmentFinal):
            end = event.end_ms * SAMPLE_RATE // 1000
            self._lag(event.end_ms)
            if self._stopped and self._stopped[0][0] <= end + SAMPLE_RATE // 1000:
                self._waits.stop_to_final(self._clock() - self._stopped.pop(0)[1])
                self._begun.pop(0)
                self._spoken = False

    def _partial(self, event: SegmentPartial) -> None:
        now = self._clock()
        if (lag := self._lag(event.audio_ms)) is not None:
            self._waits.chunk_lag(lag)
        if not self._spoken and self._begun and (event.committed or event.partial):
            self._spoken = True
            self._waits.first_partial(now - self._begun[0])

    def _lag(self, end_ms: int) -> float | None:
        """Return how long ago the audio at `end_ms` came, None if that is not known any more."""
        at = bisect_left(self._ends, end_ms * SAMPLE_RATE // 1000)
        if at >= len(self._times):
            return None
        lag = self._clock() - self._times[at]
        self._on_text(end_ms, lag)
        return lag


_LAGS_KEPT = 60


class TextLags:
    """The lags of the last 60 texts of each watched session. Use it on one event loop."""

    def __init__(self, kept_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """A session is watched until `kept_seconds` after the last call of `watch`."""
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._until: dict[str, float] = {}
        self._lags: dict[str, deque[tuple[int, float]]] = {}

    def watch(self, session: str) -> tuple[tuple[int, float], ...]:
        """Return the kept texts as (position in ms, seconds from its audio to its text)."""
        now = self._clock()
        for name in [name for name, until in self._until.items() if until <= now]:
            del self._until[name], self._lags[name]
        self._until[session] = now + self._kept_seconds
        return tuple(self._lags.setdefault(session, deque(maxlen=_LAGS_KEPT)))

    def record(self, session: str, audio_ms: int, seconds: float) -> None:
        """A text up to `audio_ms` came `seconds` after its audio."""
        if session in self._until and self._clock() < self._until[session]:
            self._lags[session].append((audio_ms, seconds))
