"""Runs a session's line: sends audio and receives events, with deadlines and retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import (
    DeadlineExceeded,
    Overloaded,
    ProtocolError,
    UnknownSession,
    WorkerUnavailable,
)
from auricle.frontend.line.lead import Lead
from auricle.frontend.line.processors import ProcessorEndpoints
from auricle.frontend.line.session_line import SessionLine
from auricle.frontend.listening.pieces import FeaturePiece, Piece
from auricle.messages.sessions import (
    Accepted,
    EndAudio,
    OpenSession,
    PushAudio,
    ResumePoint,
    SessionEvent,
)
from auricle.process.tracing import OFF, Tracer
from auricle.tasks import within

log = logging.getLogger(__name__)
_PUSH_TRIES = 100
_PUSH_PAUSE_SECONDS = 0.2


class LinkObserver(Protocol):
    """Is told of a session's audio and events, on the event loop. It must not block or raise."""

    def heard(self, piece: Piece | FeaturePiece) -> None:
        """A piece of audio was queued for the processor."""
        ...

    def event(self, event: SessionEvent) -> None:
        """An event is about to be sent to the client."""
        ...


class ProcessorLink:
    """One session's connection to its processor.

    One task calls `add` and `finish`, one iterates over `events`, and one runs `pump`; all of
    them on one event loop.
    """

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
        lead: Lead | None = None,
    ) -> None:
        """`deadline_seconds` bounds one push, `patience_seconds` the wait for a processor.

        `start` is where the session's audio begins, if not at its first sample. `observers`
        are told of all audio and events. `lead` measures the client's audio against real time;
        without it the session is never ahead.
        """
        self._line = SessionLine(opened if start is None else replace(opened, resume=start))
        self._endpoints = endpoints
        self._trace = opened.trace
        self._deadline = deadline_seconds
        self._patience = patience_seconds
        self._observers = observers
        self._tracer = tracer
        self._lead = lead
        self._instance: int | None = None  # the processor that owns the session, or owned it last
        self._left = _never()  # fails when the session leaves, or must leave, its processor
        self._work = asyncio.Event()  # there may be a message to send
        self._room = asyncio.Event()

    def after(self, context: str, language: str) -> None:
        """Set the text that was spoken before this session, and in which language, a name.

        Call this before `events`.
        """
        self._line.follow(context, language)

    async def add(self, piece: Piece | FeaturePiece) -> None:
        """Queue audio for the processor; waits while 40 s or more are queued (backpressure).

        Raises WorkerUnavailable if there is no room within `deadline_seconds`.
        """
        while self._line.full:
            self._room.clear()
            try:
                await within(self._deadline, self._room.wait(), "room for more audio")
            except DeadlineExceeded as error:  # not the client's fault
                raise WorkerUnavailable(f"no processor takes audio: {error}") from None
        if self._lead is not None:
            self._line.ahead = self._lead.heard((piece.end - piece.start) / SAMPLE_RATE)
        self._line.add(piece)
        for observer in self._observers:
            observer.heard(piece)
        if self._line.ready:
            self._work.set()

    @property
    def missing(self) -> int | None:
        """Samples of speech until the processor has work to do; None if that is not known."""
        return self._line.missing

    def finish(self, total_samples: int) -> None:
        """End the audio. The session has `total_samples` (16 kHz), silence included."""
        self._line.finish(total_samples)
        self._work.set()

    # ── events ──────────────────────────────────────────────────────────────

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events, across processors. The last one is Done or Failed.

        Raises WorkerUnavailable if four processors in a row were lost, Overloaded if the last
        of them was full. Closing the iterator ends the session on its processor.
        """
        while not self._line.over:
            try:
                async with aclosing(self._events_of_one()) as events:
                    async for event in events:
                        yield self._seen(event)
            except (WorkerUnavailable, Overloaded) as error:
                pause = self._line.lost()
                if pause is None:
                    raise
                log.warning("session %s moves to another processor: %s", self._line.session, error)
                for late in self._line.lost_late():
                    yield self._seen(late)
                await asyncio.sleep(pause)

    def _seen(self, event: SessionEvent) -> SessionEvent:
        """Tell the observers of an event for the client."""
        for observer in self._observers:
            observer.event(event)
        return event

    async def _events_of_one(self) -> AsyncGenerator[SessionEvent, None]:
        """Yield the events of one processor for the client, until the last or a hand-over."""
        avoid = frozenset() if self._instance is None else frozenset({self._instance})
        self._instance = await self._endpoints.choose(self._patience, avoid)
        message = self._line.open_message()
        stream = self._endpoints.open.stream(message, SessionEvent, self._instance)
        self._left = left = _never()
        try:
            async with aclosing(self._heard(stream, self._instance, left)) as events:
                async for event in events:
                    yield event
        finally:
            self._leave(left, "the session has left this processor")

    async def _heard(
        self, stream: AsyncGenerator[SessionEvent, None], instance: int, left: asyncio.Future[None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield a processor's events for the client.

        A session is silent for as long as nobody speaks, so events have no deadline, but the
        processor must answer. Raises WorkerUnavailable if it hangs, does not open the session
        within `deadline_seconds`, or if `left` fails.
        """
        async with aclosing(stream) as events:
            while True:
                opened = self._line.connected
                following = _following(events) if opened else self._opening(events)
                event = await self._endpoints.pulses.during(instance, following, left)
                if event is None:
                    break
                goes_on = self._line.heard(event)
                self._work.set()
                if goes_on:
                    yield event
                if not self._line.connected:
                    if not self._line.over:
                        log.info("session %s is handed over", self._line.session)
                    return
        raise WorkerUnavailable("the processor ended the session without a result")

    async def _opening(self, events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
        try:
            return await within(self._deadline, _following(events), "opening the session")
        except DeadlineExceeded as error:
            raise WorkerUnavailable(str(error)) from None

    def _leave(self, left: asyncio.Future[None], why: str) -> None:
        """End all calls to the processor that `left` belongs to."""
        if not left.done():
            left.set_exception(WorkerUnavailable(why))
        left.exception()  # retrieved, so that asyncio does not log it

    # ── audio ───────────────────────────────────────────────────────────────

    async def pump(self) -> None:
        """Send audio, and its end, to the processor that owns the session. Cancel it to stop.

        The session moves if a message is not taken within `deadline_seconds`. Raises the error
        with which the processor rejects a message, and WorkerUnavailable or UnknownSession after
        100 failures in a row (20 s or more) while the session is on the same processor.
        """
        failures = 0
        while True:
            message, left = self._line.next_message(), self._left
            if message is None:
                await self._work.wait()
                self._work.clear()
                continue
            try:
                await self._send(message, left)
                failures = 0
            except DeadlineExceeded as error:
                if self._line.overdue(message):
                    self._leave(left, f"the processor takes no audio: {error}")
            except (WorkerUnavailable, UnknownSession):
                # Usually the processor died, or the session moved or ended, and `events` is
                # about to learn of it.
                failures = failures + 1 if message.session == self._line.session else 0
                if failures == _PUSH_TRIES:
                    raise
                await asyncio.sleep(_PUSH_PAUSE_SECONDS)
            except ProtocolError:
                if message.session == self._line.session and self._line.connected:
                    raise

    async def _send(self, message: PushAudio | EndAudio, left: asyncio.Future[None]) -> None:
        instance, pulses = self._instance, self._endpoints.pulses
        if instance is None:
            raise AssertionError("connected without an instance")
        if isinstance(message, EndAudio):
            calling = self._endpoints.end.call(message, Accepted, instance, self._deadline)
            reply: Accepted = await pulses.during(instance, calling, left)
        else:
            calling = self._endpoints.push.call(message, Accepted, instance, self._deadline)
            with self._tracer.span("push", self._trace):
                reply = await pulses.during(instance, calling, left)
        self._line.accepted(message, reply)
        self._room.set()


def _never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def _following(events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
    """Return the next event; None at the end."""
    return await anext(events, None)
