"""A session's line to the processor that owns it, surviving that processor.

The audio of the open segment is kept here until its text is final. If the
processor dies, the session is opened on another one from the last event's
resume point and that audio is sent again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from auricle.audio.mel import SAMPLE_RATE
from auricle.errors import Overloaded, ProtocolError, WorkerUnavailable
from auricle.frontend.endpointing import FeaturePiece, Piece
from auricle.frontend.kept_audio import KeptAudio
from auricle.frontend.processors import ProcessorEndpoints
from auricle.messages import (
    Accepted,
    Done,
    EndAudio,
    Failed,
    Final,
    HandedOver,
    OpenSession,
    Partial,
    PushAudio,
    ResumePoint,
    SessionEvent,
    SessionReady,
)
from auricle.tasks import within
from auricle.tracing import OFF, Tracer

log = logging.getLogger(__name__)
_AHEAD = 40 * SAMPLE_RATE  # samples that may wait to be pushed before the client is held back
_FAILURES = 4
_MOVE_WAIT_SECONDS = 1.0
_PUSH_TRIES = 100
_PUSH_PAUSE_SECONDS = 0.2


class LinkObserver(Protocol):
    """Sees what passes a link."""

    def heard(self, piece: Piece | FeaturePiece) -> None:
        """Audio on its way to the processor."""
        ...

    def event(self, event: SessionEvent) -> None:
        """An event on its way to the client."""
        ...


class ProcessorLink:
    """`add`/`finish` audio on one side, take `events` on the other, `pump` in between."""

    def __init__(
        self,
        endpoints: ProcessorEndpoints,
        opened: OpenSession,
        *,
        deadline_seconds: float,
        patience_seconds: float,
        start: ResumePoint | None = None,
        observers: Sequence[LinkObserver] = (),
        tracer: Tracer = OFF,
    ) -> None:
        """`deadline_seconds` bounds one push, `patience_seconds` the wait for a processor.

        `start` is where the session's audio begins, if not at its first sample; observers
        are told of all audio and events, and must not wait.
        """
        self._observers = observers
        self._tracer = tracer
        self._endpoints = endpoints
        self._opened = opened if start is None else replace(opened, resume=start)
        self._deadline = deadline_seconds
        self._patience = patience_seconds
        self._instance: int | None = None
        self._session = opened.session
        self._kept = KeptAudio(opened.chunk_ms * SAMPLE_RATE // 1000)
        self._total: int | None = None
        self._connected = asyncio.Event()
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def after(self, context: str) -> None:
        """Before `events`: the text that was said before this session."""
        resume = replace(self._opened.resume, context=context)
        self._opened = replace(self._opened, resume=resume)

    async def add(self, piece: Piece | FeaturePiece) -> None:
        """Hand over audio; waits while the processor is behind."""
        if not self._room.is_set():
            await within(self._deadline, self._room.wait(), "room for more audio")
        self._kept.add(piece)
        for observer in self._observers:
            observer.heard(piece)
        self._update_room()
        if self._kept.ready:
            self._work.set()

    def finish(self, total_samples: int) -> None:
        """No more audio; the session has `total_samples`, silence included."""
        self._total = total_samples
        self._work.set()

    # ── events ──────────────────────────────────────────────────────────────

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Events of the session, across processors; ends with Done or Failed."""
        announced = False
        failures = 0
        for move in itertools.count():
            try:
                async with aclosing(self._events_of_one(move)) as events:
                    async for event in events:
                        if isinstance(event, HandedOver):
                            break
                        if isinstance(event, SessionReady):
                            if announced:
                                continue
                            announced = True
                        for observer in self._observers:
                            observer.event(event)
                        yield event
                        if isinstance(event, Done | Failed):
                            return
                    else:
                        raise WorkerUnavailable("the processor ended the session without a result")
                self._connected.clear()
                log.info("session %s is handed over to another processor", self._session)
            except (WorkerUnavailable, Overloaded) as error:
                self._connected.clear()
                failures += 1
                if failures == _FAILURES:
                    raise
                log.warning("session %s moves to another processor: %s", self._session, error)
                await asyncio.sleep(_MOVE_WAIT_SECONDS * (failures - 1))

    async def _events_of_one(self, move: int) -> AsyncGenerator[SessionEvent, None]:
        avoid = frozenset() if self._instance is None else frozenset({self._instance})
        self._instance = await self._endpoints.choose(self._patience, avoid)
        # A new name: the old processor may still hold the session.
        self._session = f"{self._opened.session}.{move}" if move else self._opened.session
        opened = replace(self._opened, session=self._session)
        stream = self._endpoints.open.stream(opened, SessionEvent, self._instance)
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, SessionReady):
                    self._kept.send_again()
                    self._work.set()
                    self._connected.set()
                elif isinstance(event, Partial | Final | HandedOver):
                    self._opened = replace(self._opened, resume=event.resume)
                    self._kept.forget_before(event.resume.segment_start)
                    if self._kept.ready:
                        self._work.set()
                yield event

    # ── audio ───────────────────────────────────────────────────────────────

    async def pump(self) -> None:
        """Send audio and the end to whichever processor owns the session; cancel to stop.

        Raises what a processor refused, and WorkerUnavailable if it takes no audio
        although its events go on.
        """
        failures = 0
        while True:
            await self._connected.wait()
            await self._work.wait()
            session, instance = self._session, self._instance
            if instance is None:
                raise AssertionError("connected without an instance")
            try:
                await self._send_next(session, instance)
                failures = 0
            except ProtocolError:
                if session == self._session and self._connected.is_set():
                    raise
            except WorkerUnavailable:
                # Usually `events` sees the same death and connects to another processor.
                failures = failures + 1 if session == self._session else 0
                if failures == _PUSH_TRIES:
                    raise
                await asyncio.sleep(_PUSH_PAUSE_SECONDS)

    async def _send_next(self, session: str, instance: int) -> None:
        piece = self._kept.next(all_of_it=self._total is not None)
        tenant = self._opened.tenant
        if piece is not None:
            message = _push(session, tenant, piece)
            with self._tracer.span("push", self._opened.trace):
                await self._endpoints.push.call(message, Accepted, instance, self._deadline)
            if session == self._session:
                self._kept.sent()
            self._update_room()
        elif self._total is not None:
            message_end = EndAudio(session, tenant, self._total)
            await self._endpoints.end.call(message_end, Accepted, instance, self._deadline)
            if session == self._session:  # it may have moved meanwhile
                self._connected.clear()  # nothing more to send unless it moves
        else:
            self._work.clear()

    def _update_room(self) -> None:
        if self._kept.unsent < _AHEAD:
            self._room.set()
        else:
            self._room.clear()


def _push(session: str, tenant: str, piece: Piece | FeaturePiece) -> PushAudio:
    if isinstance(piece, FeaturePiece):
        return PushAudio(session, tenant, piece.start, b"", piece.boundary, piece.packet)
    pcm = piece.pcm.astype("<i2", copy=False).tobytes()
    return PushAudio(session, tenant, piece.start, pcm, piece.boundary)
