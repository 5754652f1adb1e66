"""A session's connection to its processor: audio and events, with deadlines and retries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import first_failure_or, with_timeout
from auricle.core.errors import (
    DeadlineExceeded,
    Overloaded,
    ProtocolError,
    UnknownSession,
    WorkerUnavailable,
    from_code,
)
from auricle.dynamo import Pulses, RemoteEndpoint
from auricle.frontend.audio.chunks import AudioChunk, FeatureChunk
from auricle.frontend.link.session_line import SessionLine
from auricle.load.report_cache import ProcessorLoads
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.sessions import (
    Accepted,
    EndAudio,
    Failed,
    OpenSession,
    PushAudio,
    ResumePoint,
    SessionEvent,
)

log = logging.getLogger(__name__)

# A client that sends this many seconds of speech per second, or fewer, is never ahead for long.
# More than 1, so that a client which had to send late soon counts as live again.
_PACE = 1.25


class Lead:
    """Measures one client's lead: the speech it has sent beyond `_PACE` times real time.

    The work of a session that is ahead of real time yields to live sessions, and its waiting time
    does not count as load.
    """

    def __init__(
        self, allowance_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """A session is ahead when its lead exceeds `allowance_seconds`; `clock` gives seconds."""
        self._allowance = allowance_seconds
        self._clock = clock
        self._at = clock()
        self._seconds = 0.0

    def add(self, seconds: float) -> bool:
        """Count `seconds` of speech; return whether the session is ahead of real time."""
        now = self._clock()
        self._seconds = max(0.0, self._seconds - _PACE * (now - self._at)) + seconds
        self._at = now
        return self._seconds > self._allowance


_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ProcessorEndpoints:
    """The endpoints of the processors. All calls of an open session go to one instance."""

    admit: RemoteEndpoint
    withdraw: RemoteEndpoint
    open: RemoteEndpoint
    push: RemoteEndpoint
    end: RemoteEndpoint
    pulses: Pulses
    loads: ProcessorLoads = field(default_factory=ProcessorLoads)

    async def choose(self, seconds: float, avoid: frozenset[int]) -> int:
        """Return the processor with the fewest sessions among the ones that are not draining.

        Instances in `avoid` are the last resort. Waits up to `seconds` for an instance, then raises
        WorkerUnavailable.
        """
        deadline = time.monotonic() + seconds
        while True:
            usable = await self.open.usable(max(0.0, deadline - time.monotonic()), avoid)
            if staying := self.loads.staying(usable):
                return self.loads.chosen(staying)
            if time.monotonic() > deadline:
                raise WorkerUnavailable(f"all processors were draining for {seconds:g} s")
            await asyncio.sleep(_POLL_SECONDS)


_PUSH_TRIES = 100
_PUSH_PAUSE_SECONDS = 0.2
_UNREACHABLE_TRIES = 5  # before the session moves, if there is another processor


class LinkObserver(Protocol):
    """Observes a session's audio and events, on the event loop. It must not block or raise."""

    def on_audio(self, chunk: AudioChunk | FeatureChunk) -> None:
        """A chunk was queued for the processor."""
        ...

    def on_event(self, event: SessionEvent) -> None:
        """An event is about to be sent to the client."""
        ...


class ProcessorLink:
    """One session's connection to its processor.

    One task calls `add` and `finish`, another `run`; both on one event loop.
    """

    def __init__(
        self,
        endpoints: ProcessorEndpoints,
        opened: OpenSession,
        *,
        deadline_seconds: float,
        choose_seconds: float,
        start: ResumePoint | None = None,
        observers: Sequence[LinkObserver] = (),
        tracer: Tracer = OFF,
        lead: Lead | None = None,
    ) -> None:
        """`deadline_seconds` bounds one push, `choose_seconds` the choice of a processor.

        `start` is where the session's audio begins, if not at its first sample. `lead` measures the
        client's audio against real time; without it the session is never ahead.
        """
        self._line = SessionLine(opened if start is None else replace(opened, resume=start))
        self._endpoints = endpoints
        self._trace = opened.trace
        self._deadline = deadline_seconds
        self._choose_seconds = choose_seconds
        self._observers = observers
        self._tracer = tracer
        self._lead = lead
        self._instance: int | None = None  # the processor that owns the session, or owned it last
        self._left = _never()  # fails when the session leaves, or must leave, its processor
        self._work = asyncio.Event()  # there may be a message to send
        self._room = asyncio.Event()

    def after(self, context: str, language: str) -> None:
        """Set the text before this session and its language, by name. Call this before `run`."""
        self._line.follow(context, language)

    async def add(self, chunk: AudioChunk | FeatureChunk) -> None:
        """Queue audio for the processor; waits while 40 s or more are queued (backpressure).

        Raises WorkerUnavailable after `deadline_seconds` without room.
        """
        while self._line.full:
            self._room.clear()
            try:
                await with_timeout(self._deadline, self._room.wait(), "room for more audio")
            except DeadlineExceeded as error:  # not the client's fault
                raise WorkerUnavailable(f"no processor takes audio: {error}") from None
        if self._lead is not None:
            self._line.ahead = self._lead.add((chunk.end - chunk.start) / SAMPLE_RATE)
        self._line.add(chunk)
        for observer in self._observers:
            observer.on_audio(chunk)
        if self._line.ready:
            self._work.set()

    @property
    def missing(self) -> int | None:
        """Samples of speech until the processor has work to do; None if unknown."""
        return self._line.missing

    def finish(self, total_samples: int) -> None:
        """End the audio. The session has `total_samples` (16 kHz), silence included."""
        self._line.finish(total_samples)
        self._work.set()

    # ── events ──────────────────────────────────────────────────────────────

    async def run(self, handle: Callable[[SessionEvent], Awaitable[None]]) -> None:
        """Send the audio, and pass the session's events to `handle`, up to the last.

        Raises the errors of `events`, `pump` and `handle`.
        """

        async def receive() -> None:
            async with aclosing(self.events()) as events:
                async for event in events:
                    await handle(event)

        receiving = asyncio.create_task(receive())
        await first_failure_or(receiving, [asyncio.create_task(self.pump())])

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events, across processors; the last one is SessionDone.

        Raises the error with which a processor fails the session, WorkerUnavailable if four
        processors in a row were lost, and Overloaded if the last of them was full. Closing the
        iterator ends the session on its processor.
        """
        failed: Failed | None = None
        while not self._line.over:
            try:
                async with aclosing(self._events_of_one()) as events:
                    async for event in events:
                        self._observe(event)
                        if isinstance(event, Failed):
                            failed = event
                        else:
                            yield event
            except (WorkerUnavailable, Overloaded) as error:
                pause = self._line.lost()
                if pause is None:
                    raise
                log.warning("session %s moves to another processor: %s", self._line.session, error)
                for late in self._line.lost_annotations():
                    self._observe(late)
                    yield late
                await asyncio.sleep(pause)
        if failed is not None:
            raise from_code(failed.code, failed.message)

    def _observe(self, event: SessionEvent) -> None:
        for observer in self._observers:
            observer.on_event(event)

    async def _events_of_one(self) -> AsyncGenerator[SessionEvent, None]:
        """Yield the events of one processor for the client, until the last or a hand-over."""
        avoid = frozenset() if self._instance is None else frozenset({self._instance})
        self._instance = await self._endpoints.choose(self._choose_seconds, avoid)
        message = replace(self._line.open_message(), frontend=self._endpoints.pulses.caller)
        stream = self._endpoints.open.stream(message, SessionEvent, self._instance)
        self._left = left = _never()
        try:
            async with aclosing(self._accept(stream, self._instance, left)) as events:
                async for event in events:
                    yield event
        finally:
            self._leave(left, "the session has left this processor")

    async def _accept(
        self, stream: AsyncGenerator[SessionEvent, None], instance: int, left: asyncio.Future[None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield a processor's events for the client.

        Events have no deadline, because a client may be silent for any time, but the processor must
        answer. Raises WorkerUnavailable if it hangs, does not open the session
        within `deadline_seconds`, alone reaches no worker, or if `left` fails.
        """
        async with aclosing(stream) as events:
            while True:
                opened = self._line.connected
                following = _following(events) if opened else self._opening(events)
                event = await self._endpoints.pulses.during(instance, following, left)
                if event is None:
                    break
                # It has lost discovery, or a part of the network is cut: others may reach workers.
                if (
                    isinstance(event, Failed)
                    and event.code == WorkerUnavailable.code
                    and await self._others()
                ):
                    raise WorkerUnavailable(event.message)
                for_client = self._line.receive(event)
                self._work.set()
                if for_client:
                    yield event
                if not self._line.connected:
                    if not self._line.over:
                        log.info("session %s is handed over", self._line.session)
                    return
        raise WorkerUnavailable("the processor ended the session without a result")

    async def _others(self) -> bool:
        """Whether there is a processor that has not had the session last."""
        instance = self._instance
        return instance is not None and bool(await self._endpoints.open.others(instance))

    async def _opening(self, events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
        try:
            return await with_timeout(self._deadline, _following(events), "opening the session")
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

        The session moves if a message is not taken within `deadline_seconds`, or if the processor
        cannot be reached for a second and there is another one. Raises the error
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
            except (WorkerUnavailable, UnknownSession) as error:
                # Usually the processor died, or the session moved or ended, which `events` is about
                # to find out. It is not if the processor only lost its record in discovery.
                failures = failures + 1 if message.session == self._line.session else 0
                if failures == _PUSH_TRIES:
                    raise
                unreachable = isinstance(error, WorkerUnavailable)
                if unreachable and failures >= _UNREACHABLE_TRIES and await self._others():
                    if self._line.overdue(message):
                        self._leave(left, f"it takes no audio: {error}")
                    failures = 0
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
    return await anext(events, None)
