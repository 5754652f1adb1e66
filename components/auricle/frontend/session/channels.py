"""The engine of live sessions: a client's audio in, the text of processors out.

Protocol adapters only translate messages. Everything else is here: audio is held back, cut into
slices, endpointed and charged; draining ends a session between two segments, or at its deadline
even within one; processor events become text.

All objects must be used on one event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import TimeSlice, first_failure_or
from auricle.core.errors import AuricleError, BadRequest, DeadlineExceeded, WorkerUnavailable
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, FeatureChunk
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.holding import Holding
from auricle.frontend.audio.ingest import FeatureIngest, Ingest
from auricle.frontend.audio.resume_state import BEGIN, AudioCheckpoint
from auricle.frontend.audio.stalls import Reading, StallTimer
from auricle.frontend.audio.turn_detection import Silence, TurnWait
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorLink
from auricle.frontend.link.words import HeldFinals, Text
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.transport.live_sessions import LiveSession
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation
from auricle.protocol.sessions import OpenSession, SegmentWords, SessionEvent

T = TypeVar("T")
AnyIngest = TypeVar("AnyIngest", bound=Ingest | FeatureIngest)
OnText = Callable[[Text], Awaitable[None]]
OnTranslation = Callable[[SegmentTranslation], Awaitable[None]]
# After a client's end or its mistake nothing else ends the wait for its last text.
_LAST_TEXT_SECONDS = 120.0


class AudioIntake(Generic[AnyIngest]):
    """One channel of audio. One task feeds it, another runs `listen`.

    All work on the audio except `take` and `end` must be done within `async with holding`.
    """

    def __init__(self, frontend: Frontend, live_session: LiveSession, ingest: AnyIngest) -> None:
        self._frontend = frontend
        self._live_session = live_session
        self.ingest = ingest
        self._counted = ingest.received_samples
        self.holding = Holding(lambda: self.ingest.holds, self._pass_on)
        self._stall = StallTimer(self._stall_seconds, self.holding.wake, live_session.ping)
        self._time_slice = TimeSlice()

    # ── what subclasses implement ───────────────────────────────────────────

    async def deliver(self, events: list[AudioEvent]) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        """Emit the text of the audio, until all audio has its text. Raises the session's error."""
        raise NotImplementedError

    async def count(self) -> int:
        """Return how many of the processed samples are charged and were not counted before."""
        new = self.ingest.received_samples - self._counted
        self._counted += new
        return new

    def hold_back(self) -> None:
        """Set how much audio must have arrived before it is processed; always the same here."""

    @property
    def stall_needed(self) -> int | None:
        """Samples of time without audio that change something; None if the client ends speech."""
        return self.ingest.stall_needed

    def stalled(self, samples: int) -> None:
        """The client has sent nothing for the time of `samples`; the events of that follow."""

    # ── audio ───────────────────────────────────────────────────────────────

    async def take(self, data: bytes) -> None:
        """Process a client's bytes slice by slice, so that other clients are served in between.

        Waits while the processor is full, or the client exceeds its audio rate.
        """
        if data:
            self._stall.heard(self.ingest.seconds(data))
        async with self.holding:
            self.hold_back()
            self.ingest.take(data)
            while self.ingest.ready:
                await self._process()
        self._stall.check_later()
        await self._time_slice.yield_if_expired()

    async def _process(self) -> None:
        events = await self._frontend.listened(self.ingest, self._live_session.trace)
        if any(isinstance(event, AudioChunk | FeatureChunk) for event in events):
            self._live_session.spoke()
        await self.deliver(events)
        await self._charge()
        await self._time_slice.yield_if_expired()

    async def _pass_on(self) -> None:
        while self.ingest.holds:
            await self._process()
        if (seconds := self._stall.stalled) is not None:
            samples = math.ceil(seconds * SAMPLE_RATE)
            events = await self.ingest.stall(samples)
            self.stalled(samples)
            await self.deliver(events)
        self._stall.check_later()

    def _stall_seconds(self) -> float | None:
        needed = self.stall_needed
        return None if needed is None else needed / SAMPLE_RATE

    async def listen(self, reading: Reading) -> None:
        """Pass on audio that is held, and find when the client stops sending to `reading`.

        The caller cancels this. Raises errors as `take` does.
        """
        self._stall.watch(reading)
        try:
            await self.holding.run()
        finally:
            self._stall.close()

    async def _charge(self) -> None:
        """Count the audio processed so far; waits if the client exceeds its audio rate."""
        if new := await self.count():
            self._frontend.metrics.audio(received=new / SAMPLE_RATE)
            await self._live_session.charge(new / SAMPLE_RATE)

    async def flush(self) -> None:
        """End the speech so far."""
        await self.deliver(await self.ingest.end())
        await self._charge()

    def follow_with(self, ingest: AnyIngest) -> None:
        """Let another ingest process the audio that follows."""
        self.ingest = ingest
        self._counted = ingest.received_samples

    # ── the end ─────────────────────────────────────────────────────────────

    async def end_speech(self) -> None:
        """End the speech so far."""
        async with self.holding:
            await self.flush()

    def finish(self) -> None:
        """The audio has ended, and so has its speech."""
        self.holding.close()
        self._stall.close()

    async def end(self) -> None:
        """The audio has ended."""
        async with self.holding:
            await self.deliver(await self.ingest.end())
            self.finish()
            await self._charge()

    @property
    def total_samples(self) -> int:
        """The 16 kHz samples that were processed so far."""
        return self.ingest.total_samples

    @property
    def received(self) -> bool:
        """Whether there was any audio."""
        return self.ingest.holds or self.ingest.received_samples > 0

    @property
    def resting_at(self) -> int | None:
        """The session sample from which another session can continue without cutting a word.

        None within a turn, and while audio is being processed.
        """
        return None if self.holding.busy else self.ingest.resting_at


class Channel(AudioIntake[AnyIngest]):
    """One channel of audio whose speech goes to one processor session."""

    def __init__(
        self, frontend: Frontend, live_session: LiveSession, ingest: AnyIngest, link: ProcessorLink
    ) -> None:
        super().__init__(frontend, live_session, ingest)
        self._link = link

    async def on_endpointing(self, events: list[AudioEvent]) -> None:
        """Endpointing found `events`, before the processor gets the speech: text may follow at
        once."""

    async def on_event(self, event: SessionEvent) -> None:
        raise NotImplementedError

    def hold_back(self) -> None:
        self.ingest.hold_back(self._link.missing)

    @property
    def missing_bytes(self) -> int:
        """How many more bytes are worth processing at once; 0 for any number."""
        return self.ingest.missing_bytes(self._link.missing)

    async def deliver(self, events: list[AudioEvent]) -> None:
        """Send speech to the processor."""
        await self.on_endpointing(events)
        for event in events:
            if isinstance(event, AudioChunk | FeatureChunk):
                await self._link.add(event)

    def finish(self) -> None:
        """The audio has ended, and so has its speech."""
        super().finish()
        self._link.finish(self.total_samples)

    async def run(self) -> None:
        """Send audio to the processor and take its events; see `ProcessorLink.run`."""
        await self._link.run(self._on_event)

    async def _on_event(self, event: SessionEvent) -> None:
        if isinstance(event, Text):
            self._live_session.spoke()  # audio that was sent early still gets its text
        await self.on_event(event)


class TextChannel(Channel[Ingest]):
    """One channel of audio and its text, as `options` ask for it."""

    def __init__(
        self,
        frontend: Frontend,
        live_session: LiveSession,
        options: ChannelOptions,
        on_text: OnText | None = None,
        on_translation: OnTranslation | None = None,
    ) -> None:
        self._options = options
        self._on_text = on_text
        self._on_translation = on_translation
        name = options.name or live_session.session
        aligned = options.words == "aligned"
        waits = aligned or options.diarize
        self._held = HeldFinals(words=aligned, speakers=options.diarize) if waits else None
        opened = OpenSession(
            session=name,
            tenant=live_session.client.tenant,
            language=options.language,
            languages=options.languages,
            context=options.context,
            chunk_ms=frontend.chunk_ms(None),
            partials=options.partials,
            trace=live_session.trace,
            admission=name,
            words=aligned,
            diarize=options.diarize,
            max_speakers=options.max_speakers,
            grid_words=options.words is not None,
            translate=() if options.translate is None else (options.translate,),
        )
        link = frontend.link(
            opened,
            session=options.group,
            call=options.call,
            part=options.part,
            lead=frontend.lead(),
        )
        self._client = live_session.fairness_key
        ingest = _ingest(frontend, self._client, options, BEGIN, options.silence)
        super().__init__(frontend, live_session, ingest, link)

    async def listen_anew(self, silence: Silence | None) -> int:
        """End the speech so far, return where that was, and listen to what follows."""
        await self.end_speech()
        at = self.total_samples
        start = AudioCheckpoint(at, at, at)
        self.follow_with(_ingest(self._frontend, self._client, self._options, start, silence))
        return at

    async def emit(self, event: Text) -> None:
        if self._on_text is not None:
            await self._on_text(event)

    async def on_event(self, event: SessionEvent) -> None:
        """Emit text and translations. Finals wait for aligned words and speakers, if requested."""
        if isinstance(event, SegmentTranslation):
            if self._on_translation is not None:
                await self._on_translation(event)
        elif self._held is not None and isinstance(event, Text | SegmentWords | SegmentSpeakers):
            await self._emit_all(self._held.add(event))
        elif isinstance(event, Text):
            await self.emit(event)

    async def run(self) -> None:
        """Emit the channel's text. If the session fails, text that still waits comes first."""
        failure: AuricleError | None = None
        try:
            await super().run()
        except AuricleError as error:
            failure = error
        await self._emit_all([] if self._held is None else self._held.rest())
        if failure is not None:
            raise failure

    async def _emit_all(self, texts: Iterable[Text]) -> None:
        for event in texts:
            await self.emit(event)


def _ingest(
    frontend: Frontend,
    client: str,
    options: ChannelOptions,
    start: AudioCheckpoint,
    silence: Silence | None,
) -> Ingest:
    turns = silence if isinstance(silence, TurnWait) else None
    silence_ms = None if isinstance(silence, TurnWait) else silence
    # Silence is dropped whatever the settings: the model would hallucinate words there.
    endpointing = EndpointingOptions.over(frontend.settings, min_silence_ms=silence_ms, turns=turns)
    return Ingest(
        options.sample_rate,
        options.encoding,
        frontend.detector,
        endpointing,
        start=start,
        turn_probability=frontend.turn_probability(client),
    )


class SessionEngine:
    """One client's session: the channels of its audio, which end and drain together.

    `left_at` is the session sample at which draining ended the session, None otherwise. `failure`
    is the client's mistake that has ended its audio, None otherwise.
    """

    def __init__(
        self, frontend: Frontend, *channels: AudioIntake[Any], reading: Reading | None = None
    ) -> None:
        """`reading` is of the messages that come to other sessions too, and then to this one."""
        self.reading = Reading(reading)
        self._admission = frontend.admission
        self.channels = list(channels)
        self.left_at: int | None = None
        self.failure: AuricleError | None = None
        self._ended = False

    @property
    def total_samples(self) -> int:
        """The 16 kHz samples of the first channel that were processed so far."""
        return self.channels[0].total_samples if self.channels else 0

    @property
    def resting(self) -> bool:
        return all(channel.resting_at is not None for channel in self.channels)

    async def receive(self, receiving: Callable[[], Awaitable[T]]) -> T | None:
        """Return what `receiving` returns; None if draining ends the session before.

        Draining must interrupt `receiving`; see `SessionAdmission.interrupting`.
        """
        with self.reading.waiting():
            return await self._admission.unless_draining(lambda: self.resting, receiving)

    async def end(self) -> None:
        """The client's audio has ended; calls after the first have no effect."""
        if not self._ended:
            self._ended = True
            for channel in self.channels:
                await channel.end()

    async def leave(self) -> int:
        """End the session early, for draining.

        Return the session sample from which another session can continue. Speech is cut if a
        channel is within a segment.
        """
        if self.resting:
            at = min((channel.resting_at or 0 for channel in self.channels), default=0)
        else:
            for channel in self.channels:
                await channel.end_speech()
            at = self.total_samples
        self.left_at = at  # before the last text may come
        for channel in self.channels:
            channel.finish()
        return at

    async def run(
        self,
        reading: Coroutine[Any, Any, None],
        *others: Coroutine[Any, Any, None],
        last: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Run `reading`, which feeds the channels, until all text was emitted, then `last`.

        If the client sent something wrong, or nothing for too long, the text of its audio is
        emitted before that `failure` is raised. Raises the first error of any task; the others
        are cancelled.
        """
        texts = [asyncio.create_task(channel.run()) for channel in self.channels]

        async def feed() -> None:
            try:
                await reading
            except (BadRequest, DeadlineExceeded) as error:
                if not any(channel.received for channel in self.channels):
                    raise
                self.failure = error
                await self._end_and_wait()

        async def whole() -> None:
            await asyncio.gather(*texts)
            if last is not None:
                await last()

        running = [feed(), *others, *(channel.listen(self.reading) for channel in self.channels)]
        whole_text = asyncio.create_task(whole())
        try:
            await first_failure_or(whole_text, [*texts, *map(asyncio.create_task, running)])
        except AuricleError as error:
            raise self.failure or error from None
        if self.failure is not None:
            raise self.failure

    async def follow(self, reading: Coroutine[Any, Any, None]) -> None:
        """As `run`; the audio has ended when `reading` returns."""

        async def feed() -> None:
            await reading
            await self._end_and_wait()

        await self.run(feed())

    async def _end_and_wait(self) -> None:
        """The client sends no more: nothing but a deadline ends the wait for its text."""
        await self.end()
        await asyncio.sleep(_LAST_TEXT_SECONDS)
        raise WorkerUnavailable(f"a session's last text took longer than {_LAST_TEXT_SECONDS:g} s")


def check_text_is_wanted(frontend: Frontend) -> None:
    """Raise BadRequest if nothing takes the text of a call whose protocol returns none."""
    if frontend.bus.state() is None and not frontend.settings.log_transcripts:
        raise BadRequest(
            "the text of calls goes to the transcript bus, which this server does not have: "
            "set Frontend.nats_server"
        )
