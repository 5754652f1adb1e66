"""Fakes behind a session of the frontend: they detect and transcribe speech at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, cast

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.voice_activity import Floats, VoiceState
from auricle.frontend.audio.voice_activity import VoiceDetector
from auricle.frontend.transport.admission import SessionAdmission
from auricle.protocol.sessions import (
    Accepted,
    EndAudio,
    OpenSession,
    PushAudio,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionEvent,
    SessionReady,
)
from auricle.protocol.stream import Usage

_LONGEST_SEGMENT = 30 * SAMPLE_RATE
_LOUD = 0.01


class InstantDetector(VoiceDetector):
    """Detects speech at once, so that the number of operations does not depend on the clock."""

    async def detect(self, state: VoiceState, frames: Floats) -> list[float]:
        """The same interface as `VoiceDetector.detect`."""
        values: list[float] = _loudness(frames).tolist()
        return values


def _loudness(frames: Floats) -> Floats:
    loud = np.abs(frames).max(axis=1, initial=0.0) > _LOUD
    return np.where(loud, 0.95, 0.02).astype(np.float32)


class _Owned:
    """One session of the processor: it has text for any audio at once."""

    def __init__(self, opened: OpenSession) -> None:
        self.events: asyncio.Queue[SessionEvent] = asyncio.Queue()
        self._grid = opened.chunk_ms * SAMPLE_RATE // 1000
        self._segment, self._start = opened.resume.segment, opened.resume.segment_start
        self._received = self._start
        self.events.put_nowait(SessionReady(opened.session, self._grid))

    def push(self, message: PushAudio) -> Accepted:
        end = message.start_sample + len(message.pcm) // 2
        end = end if message.features is None else message.features.end
        points = (end - self._start) // self._grid - (self._received - self._start) // self._grid
        self._received = max(self._received, end)
        if message.boundary == "endpoint" or end - self._start >= _LONGEST_SEGMENT:
            ended, self._segment, self._start = self._segment, self._segment + 1, end
            self.events.put_nowait(SegmentFinal(ended, "word", 0, 1, "English", self._resume))
        elif points > 0:
            heard_ms = end * 1000 // SAMPLE_RATE
            text = SegmentPartial(self._segment, "a", " b", heard_ms, "English", self._resume)
            self.events.put_nowait(text)
        offset = self._received - self._start
        return Accepted(self._received, self._grid - offset % self._grid)

    def end(self) -> Accepted:
        if self._received > self._start:
            self.events.put_nowait(
                SegmentFinal(self._segment, "word", 0, 1, "English", self._resume)
            )
        self.events.put_nowait(SessionDone(Usage()))
        return Accepted(self._received)

    @property
    def _resume(self) -> ResumePoint:
        return ResumePoint(self._segment, self._start)


class Processor:
    """Replaces all endpoints of a processor that is never busy."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Owned] = {}

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        """Return the one instance."""
        return [1]

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events."""
        session = self._sessions[message.session] = _Owned(message)
        while True:
            event = await session.events.get()
            yield event
            if isinstance(event, SessionDone):
                return

    async def call(
        self, message: PushAudio | EndAudio, reply: object, instance: int, seconds: float
    ) -> Accepted:
        """Take a push or the end."""
        await asyncio.sleep(0)
        session = self._sessions[message.session]
        return session.end() if isinstance(message, EndAudio) else session.push(message)


def admission(*, draining: bool = False) -> SessionAdmission:
    """Return a front admission for one session; `draining`: all sessions end at once."""
    admission = SessionAdmission(cast(Any, None), 1)
    if draining:
        admission.begin_drain(0.0)
    return admission


class SteadyPulses:
    """Replaces the pulses of a processor that never hangs."""

    caller = "frontend"

    async def during(self, instance: int, work: Awaitable[Any], stop: object = None) -> Any:
        """Return the result of `work`."""
        return await work
