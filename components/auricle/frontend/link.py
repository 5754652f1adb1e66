"""A session's line to the processor that owns it, surviving that processor.

The audio of the open segment is kept here until its text is final. If the
processor dies, the session is opened on another one from the last event's
resume point and that audio is sent again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.errors import Overloaded, ProtocolError, WorkerUnavailable
from auricle.messages import (
    Accepted,
    Done,
    EndAudio,
    Failed,
    Final,
    OpenSession,
    Partial,
    PushAudio,
    SessionEvent,
    SessionReady,
)
from auricle.runtime import RemoteEndpoint
from auricle.tasks import within

log = logging.getLogger(__name__)
_PIECE = 10 * SAMPLE_RATE  # samples of one push at most
_AHEAD = 4 * _PIECE  # samples that may wait to be pushed before the client is held back
_MOVES = 4
_MOVE_WAIT_SECONDS = 1.0
_PUSH_TRIES = 100
_PUSH_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class ProcessorEndpoints:
    """The processor's three endpoints; all calls of a session go to one instance."""

    open: RemoteEndpoint
    push: RemoteEndpoint
    end: RemoteEndpoint


class ProcessorLink:
    """`add`/`finish` audio on one side, take `events` on the other, `pump` in between."""

    def __init__(
        self,
        endpoints: ProcessorEndpoints,
        opened: OpenSession,
        *,
        deadline_seconds: float,
        patience_seconds: float,
    ) -> None:
        """`deadline_seconds` bounds one push, `patience_seconds` the wait for a processor."""
        self._endpoints = endpoints
        self._opened = opened
        self._deadline = deadline_seconds
        self._patience = patience_seconds
        self._instance: int | None = None
        self._session = opened.session
        self._start = 0  # session sample of the first kept one
        self._kept: list[Int16] = []
        self._end = 0  # session sample after the last kept one
        self._sent = 0
        self._finished = False
        self._connected = asyncio.Event()
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def add(self, pcm: Int16) -> None:
        """Hand over samples; waits while the processor is behind."""
        await within(self._deadline, self._room.wait(), "room for more audio")
        if len(pcm):
            self._kept.append(pcm)
            self._end += len(pcm)
            self._update_room()
            self._work.set()

    def finish(self) -> None:
        """No more audio."""
        self._finished = True
        self._work.set()

    # ── events ──────────────────────────────────────────────────────────────

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Events of the session, across processors; ends with Done or Failed."""
        announced = False
        for move in range(_MOVES):
            try:
                async with aclosing(self._events_of_one(move)) as events:
                    async for event in events:
                        if isinstance(event, SessionReady):
                            if announced:
                                continue
                            announced = True
                        yield event
                        if isinstance(event, Done | Failed):
                            return
                raise WorkerUnavailable("the processor ended the session without a result")
            except (WorkerUnavailable, Overloaded) as error:
                self._connected.clear()
                if move + 1 == _MOVES:
                    raise
                log.warning("session %s moves to another processor: %s", self._session, error)
                await asyncio.sleep(_MOVE_WAIT_SECONDS * move)

    async def _events_of_one(self, move: int) -> AsyncGenerator[SessionEvent, None]:
        avoid = frozenset() if self._instance is None else frozenset({self._instance})
        self._instance = random.choice(await self._endpoints.open.usable(self._patience, avoid))
        # A new name: the old processor may still hold the session.
        self._session = f"{self._opened.session}.{move}" if move else self._opened.session
        opened = replace(self._opened, session=self._session)
        stream = self._endpoints.open.stream(opened, SessionEvent, self._instance)
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, SessionReady):
                    self._sent = self._opened.resume.segment_start
                    self._connected.set()
                elif isinstance(event, Partial | Final):
                    self._opened = replace(self._opened, resume=event.resume)
                    self._forget_before(event.resume.segment_start)
                yield event

    def _forget_before(self, sample: int) -> None:
        """Text up to `sample` is final: its audio is not needed any more."""
        if sample > self._start:
            # A copy: a slice would keep the whole session's audio alive.
            self._kept = [np.concatenate(self._kept)[sample - self._start :].copy()]
            self._start = sample

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
        if self._sent < self._end:
            pcm = self._piece()
            message = PushAudio(session, self._opened.tenant, self._sent, pcm.tobytes())
            sent_before = self._sent
            await self._endpoints.push.call(message, Accepted, instance, self._deadline)
            if session == self._session and self._sent == sent_before:
                self._sent += len(pcm)
            self._update_room()
        elif self._finished:
            message_end = EndAudio(session, self._opened.tenant, self._end)
            await self._endpoints.end.call(message_end, Accepted, instance, self._deadline)
            self._connected.clear()  # nothing more to send unless the session moves
        else:
            self._work.clear()

    def _piece(self) -> Int16:
        """Samples from `_sent` on, at most one piece."""
        kept = np.concatenate(self._kept)
        self._kept = [kept]
        first = self._sent - self._start
        return kept[first : first + _PIECE]

    def _update_room(self) -> None:
        if self._end - self._sent < _AHEAD:
            self._room.set()
        else:
            self._room.clear()
