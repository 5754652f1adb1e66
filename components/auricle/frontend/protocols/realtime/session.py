"""One realtime session, independent of its transport: takes client events, emits server events."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.core.aio import run_until
from auricle.core.errors import AuricleError, BadRequest, UnsupportedValue
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, SpeechEnd, SpeechOnset
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.audio.resume_state import AudioCheckpoint
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorLink
from auricle.frontend.link.words import joined
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.realtime.config import (
    SemanticVad,
    ServerVad,
    SessionConfig,
    described,
)
from auricle.frontend.protocols.realtime.events import (
    Append,
    Clear,
    ClientEvent,
    Commit,
    ServerEvent,
    SessionUpdate,
)
from auricle.frontend.session.channels import AudioIntake, SessionEngine
from auricle.frontend.transport.live_sessions import LiveSession
from auricle.protocol.sessions import (
    OpenSession,
    ResumePoint,
    ScoredToken,
    SegmentFinal,
    SegmentPartial,
    SessionEvent,
)

log = logging.getLogger(__name__)

# The turns of a realtime session: each is one processor session, run one after the other.
#
# In silence, a connection holds no resources on any processor, and a failed turn does not affect
# the others. A turn starts when the previous one is transcribed, whose text is its context. Until
# then its audio waits in its link.

Emit = Callable[[ServerEvent], Awaitable[None]]
# Returns the link to a processor, for speech from this session sample.
OpenLink = Callable[[int], ProcessorLink]
_WAITING_TURNS = 8


class RealtimeTurn:
    """One turn and its audio; without speech its text is empty. `scored`: with log probabilities.

    `start` and `end` are session samples (16 kHz). Call its methods on one event loop.
    """

    def __init__(self, emit: Emit, open_link: OpenLink, *, scored: bool) -> None:
        self.item = f"item_{uuid.uuid4().hex[:20]}"
        self.start = self.end = 0
        self.begun = asyncio.Event()
        self.dropped = asyncio.Event()
        self._emit = emit
        self._open_link = open_link
        self._scored = scored
        self._link: ProcessorLink | None = None
        self._over = False  # the turn failed, so further audio is ignored
        self._open_text, self._sent = "", 0  # of the open segment, and how much of it was emitted
        self._texts: list[str] = []  # of the segments before, each with its separator
        self._finals: list[SegmentFinal] = []

    async def add(self, piece: AudioChunk) -> None:
        """Add speech; waits under backpressure. See `ProcessorLink.add` for errors."""
        if self._over:
            return
        if self._link is None:
            self.start = piece.start
            self._link = self._open_link(piece.start)
        self.end = piece.end
        self.begun.set()
        await self._link.add(piece)

    def finish(self) -> None:
        """End the turn's audio."""
        if self._link is not None:
            self._link.finish(self.end)
        self.begun.set()

    def drop(self) -> None:
        """Discard the turn; it gives no text."""
        self.dropped.set()
        self.begun.set()

    async def run(self, context: str, language: str) -> None:
        """Emit the turn's events. Text and language of the turn before are its context."""
        scores: tuple[ScoredToken, ...] | None = () if self._scored else None
        if self._link is None:
            await self._emit(events.completed(self.item, "", 0.0, scores))
            return
        self._link.after(context, language)
        try:
            await self._link.run(self._on_event)
        except AuricleError as error:
            log.warning("turn %s failed: %s", self.item, error)
            self._over = True
            await self._emit(events.failed(self.item, error))
            return
        if self._scored:
            scores = joined((final.text, final.tokens) for final in self._finals)
        text = "".join(self._texts) + self._open_text
        seconds = (self.end - self.start) / SAMPLE_RATE
        await self._emit(events.completed(self.item, text, seconds, scores))

    @property
    def last(self) -> SegmentFinal | None:
        return self._finals[-1] if self._finals else None

    async def _on_event(self, event: SessionEvent) -> None:
        """Emit text. Deltas only append to the text already sent."""
        if not isinstance(event, SegmentPartial | SegmentFinal):
            return
        settled = event.committed if isinstance(event, SegmentPartial) else event.text
        self._open_text = _following(settled, first=not self._texts)
        if len(self._open_text) > self._sent:
            await self._emit(events.delta(self.item, self._open_text[self._sent :]))
            self._sent = len(self._open_text)
        if isinstance(event, SegmentPartial):
            await self._emit(events.partial(self.item, event.partial))
        elif event.text:
            self._texts.append(self._open_text)
            self._finals.append(event)
            self._open_text, self._sent = "", 0
            await self._emit(
                events.segment(self.item, event.segment, event.text, event.start_ms, event.end_ms)
            )


def _following(text: str, *, first: bool) -> str:
    """Return a segment's text as it follows the segments before, with a space between."""
    text = text.lstrip()
    return f" {text}" if text and not first else text


ClientMessage = str | bytes | dict[str, Any]
# Returns the client's next message, None after the last.
Receive = Callable[[], Awaitable[ClientMessage | None]]
_SHORTEST_TURN = SAMPLE_RATE // 10


class RealtimeSession(AudioIntake[Ingest]):
    """One realtime session. Call its methods on one event loop.

    Audio positions are 16 kHz samples from the start of the session.
    """

    def __init__(self, frontend: Frontend, live_session: LiveSession, emit: Emit) -> None:
        """`emit` sends an event to the client."""
        self._config = SessionConfig()
        client = live_session.fairness_key
        super().__init__(frontend, live_session, _listening(frontend, client, self._config))
        self.engine = SessionEngine(frontend, self)
        self._emit = emit
        self._turns: asyncio.Queue[RealtimeTurn | None] = asyncio.Queue(_WAITING_TURNS)
        self._lead = frontend.lead()
        self._turn: RealtimeTurn | None = None
        self._previous_item: str | None = None
        self._begun_at = 0  # where the input audio buffer begins

    async def announce(self) -> None:
        """Emit the first event. Not used behind Dynamo's own frontend, which sends its own."""
        await self._emit(events.server_event("session.created", session=self._described()))

    async def serve(self, receive: Receive) -> int:
        """Serve the session until `receive` returns None and all turns are transcribed.

        An invalid event is answered with an error event, and the session continues. Returns the
        session sample from which another session can continue. Raises AuricleError if the session
        fails.
        """
        await self.engine.run(self._read(receive))
        return self.engine.left_at or 0

    async def run(self) -> None:
        """Run the turns in order, until the last one is transcribed, discarded or failed."""
        context = language = ""
        while (turn := await self._turns.get()) is not None:
            await turn.begun.wait()
            await run_until(turn.dropped, turn.run(context, language))
            if turn.last is not None:
                context, language = turn.last.text, turn.last.language

    @property
    def stall_needed(self) -> int | None:
        """None without turn detection, too: the client commits its turns."""
        return super().stall_needed if self._detects_turns else None

    @property
    def resting_at(self) -> int | None:
        """None within a turn, too."""
        return super().resting_at if self._turn is None else None

    async def end_speech(self) -> None:
        """End the speech so far, and its turn."""
        async with self.holding:
            await self.flush()
            if self._turn is not None:
                await self._end_turn(self._turn)

    async def end(self) -> None:
        """The audio has ended, and so has its last turn."""
        await self.end_speech()
        self.finish()
        await self._turns.put(None)

    async def _read(self, receive: Receive) -> None:
        while (message := await receive()) is not None:
            await self._time_slice.yield_if_expired()
            try:
                await self._handle(events.parse_event(message))
            except BadRequest as error:
                await self._emit(events.error_event(error, events.name_of(message)))
        await self.engine.leave()
        await self._turns.put(None)

    async def _handle(self, event: ClientEvent) -> None:
        if isinstance(event, Append):
            await self.take(event.audio)
            return
        async with self.holding:
            match event:
                case SessionUpdate():
                    await self._update(event)
                case Commit():
                    await self._commit()
                case Clear():
                    await self._clear()

    # ── settings ────────────────────────────────────────────────────────────

    async def _update(self, event: SessionUpdate) -> None:
        config = self._config.updated(event.session)
        wanted = config.audio.input.transcription
        warnings = [*self._frontend.check_model(wanted.model), *config.warnings]
        language = "session.audio.input.transcription.language"
        self._frontend.check_language(wanted.spoken, wanted.among, language)
        old, new = self._config.audio.input, config.audio.input
        semantic = isinstance(new.turn_detection, SemanticVad)
        self._frontend.check_turns(semantic, "session.audio.input.turn_detection.type")
        other_audio = (old.format, old.turn_detection) != (new.format, new.turn_detection)
        if other_audio and self._turn is not None:
            raise UnsupportedValue(
                "the audio format and turn detection cannot change within a turn; "
                "commit or clear the input audio buffer first",
                "session.audio.input",
            )
        self._config = config
        if other_audio:
            self._listen_anew()
        said = {"warnings": warnings} if warnings else {}
        await self._emit(events.server_event("session.updated", session=self._described(), **said))

    def _described(self) -> dict[str, Any]:
        """Return the configuration in effect, with the server's values as defaults."""
        whole = msgspec.to_builtins(self._config)
        given = whole["audio"]["input"]
        given["transcription"]["model"] = given["transcription"]["model"] or self._frontend.model
        if (turns := self._config.audio.input.turn_detection) is not None:
            given["turn_detection"] = described(turns, _endpointing(self._frontend, self._config))
        return {
            "id": self._live_session.session,
            "object": "realtime.transcription_session",
            **whole,
        }

    @property
    def _detects_turns(self) -> bool:
        return self._config.audio.input.turn_detection is not None

    def _listen_anew(self) -> None:
        """Begin a new input audio buffer."""
        self._begun_at = self.total_samples
        client = self._live_session.fairness_key
        self.follow_with(_listening(self._frontend, client, self._config, self._begun_at))

    # ── audio ───────────────────────────────────────────────────────────────

    async def deliver(self, events: list[AudioEvent]) -> None:
        """Add speech to the open turn. With turn detection, turns begin and end with speech."""
        starting = False
        for event in events:
            if isinstance(event, AudioChunk):
                turn = self._turn or await self._begin_turn()
                if starting:
                    await self._said(
                        "speech_started", turn, audio_start_ms=milliseconds(event.start)
                    )
                    starting = False
                await turn.add(event)
            elif isinstance(event, SpeechOnset):
                starting = self._detects_turns
            elif not isinstance(event, SpeechEnd):
                pass  # OpenAI's protocol has no event for a turn that pauses
            elif self._detects_turns and self._turn is not None:
                await self._said(
                    "speech_stopped", self._turn, audio_end_ms=milliseconds(self._turn.end)
                )
                await self._end_turn(self._turn)

    async def _commit(self) -> None:
        """End the turn at the client's request. Raises UnsupportedValue without audio."""
        was_open, begun_at = self._turn is not None, self._begun_at
        await self.flush()
        self._listen_anew()
        if self._turn is not None:
            await self._end_turn(self._turn)
        elif was_open:
            return  # with turn detection, the end of the audio has ended the turn
        elif not self._detects_turns:
            if (samples := self._begun_at - begun_at) < _SHORTEST_TURN:
                held = milliseconds(samples)
                raise events.empty_commit(f"a turn needs 100 ms of audio, {held} ms were sent")
            await self._end_turn(await self._begin_turn())
        else:
            raise events.empty_commit("no turn is open")

    async def _clear(self) -> None:
        if self._turn is not None:
            self._turn.drop()
            self._turn = None
        self.ingest.drop()
        self._listen_anew()
        await self._emit(events.server_event("input_audio_buffer.cleared"))

    # ── turns ───────────────────────────────────────────────────────────────

    async def _begin_turn(self) -> RealtimeTurn:
        transcription = self._config.audio.input.transcription
        opened = OpenSession(
            session=uuid.uuid4().hex,
            tenant=self._live_session.client.tenant,
            language=transcription.spoken,
            languages=transcription.among,
            context=transcription.context,
            chunk_ms=self._frontend.chunk_ms(transcription.chunk),
            trace=self._live_session.trace,
            admission=self._live_session.session,
            commit_early=transcription.commit_early,
            logprobs=bool(self._config.include),
        )
        self._turn = RealtimeTurn(
            self._tell, lambda start: self._link(opened, start), scored=opened.logprobs
        )
        await self._turns.put(self._turn)
        return self._turn

    def _link(self, opened: OpenSession, start: int) -> ProcessorLink:
        resume = ResumePoint(segment_start=start)
        return self._frontend.link(
            opened, resume, session=self._live_session.session, part=str(start), lead=self._lead
        )

    async def _tell(self, event: ServerEvent) -> None:
        """Emit an event of a turn: audio that was sent early still gets its text."""
        self._live_session.spoke()
        await self._emit(event)

    async def _end_turn(self, turn: RealtimeTurn) -> None:
        self._turn = None
        await self._said("committed", turn, previous_item_id=self._previous_item)
        self._previous_item = turn.item
        turn.finish()

    async def _said(self, what: str, turn: RealtimeTurn, **fields: object) -> None:
        await self._emit(
            events.server_event(f"input_audio_buffer.{what}", item_id=turn.item, **fields)
        )


def _endpointing(frontend: Frontend, config: SessionConfig) -> EndpointingOptions:
    """Return the endpointing in effect. Manual turns drop silence too, because the model would
    hallucinate words there."""
    return (config.audio.input.turn_detection or ServerVad()).over(frontend.settings)


def _listening(frontend: Frontend, client: str, config: SessionConfig, at: int = 0) -> Ingest:
    encoding, rate = config.encoding
    return Ingest(
        rate,
        encoding,
        frontend.detector,
        _endpointing(frontend, config),
        start=AudioCheckpoint(at, at, at),
        turn_probability=frontend.turn_probability(client),
    )
