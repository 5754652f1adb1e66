"""One realtime session, independent of its transport: takes client events, emits server events."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.core.aio import LoopTurn, first_failure_or, unless
from auricle.core.errors import AuricleError, BadRequest, UnsupportedValue, from_code
from auricle.frontend.audio.chunks import AudioChunk, GateEvent, SpeechEnd, SpeechOnset
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.audio.resume_state import ListeningPoint
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
from auricle.frontend.session.intake import AudioIntake
from auricle.frontend.transport.live_sessions import LiveSession
from auricle.protocol.sessions import Failed, OpenSession, ResumePoint, SegmentFinal, SegmentPartial

log = logging.getLogger(__name__)

# The turns of a realtime session: each is one processor session, run one after the other.
#
# While nobody speaks, a connection holds no resources on any processor, and a failed turn does not
# affect the others. A turn starts when the previous one is transcribed, whose text is its context.
# Until then its audio waits in its link.

Emit = Callable[[ServerEvent], Awaitable[None]]
# Returns the link to a processor, for speech from this session sample.
OpenLink = Callable[[int], ProcessorLink]
_WAITING_TURNS = 8


@dataclass
class RealtimeTurn:
    """One turn and its audio; without speech its text is empty. `scored`: with log probabilities.

    `start` and `end` are session samples (16 kHz). Call its methods on one event loop.
    """

    open_link: OpenLink
    scored: bool = False
    item: str = field(default_factory=lambda: f"item_{uuid.uuid4().hex[:20]}")
    link: ProcessorLink | None = None
    start: int = 0
    end: int = 0
    over: bool = False  # the turn failed, so further audio is ignored
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)

    async def add(self, piece: AudioChunk) -> None:
        """Add speech; waits under backpressure. See `ProcessorLink.add` for errors."""
        if self.over:
            return
        if self.link is None:
            self.start = piece.start
            self.link = self.open_link(piece.start)
        self.end = piece.end
        self.begun.set()
        await self.link.add(piece)

    def finish(self) -> None:
        """End the turn's audio."""
        if self.link is not None:
            self.link.finish(self.end)
        self.begun.set()

    def drop(self) -> None:
        """Discard the turn; it gives no text."""
        self.dropped.set()
        self.begun.set()


class TurnRunner:
    """Runs turns in order and emits their text. Call its methods on one event loop."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._turns: asyncio.Queue[RealtimeTurn] = asyncio.Queue(_WAITING_TURNS)
        self._previous = "", ""  # text and language

    async def put(self, turn: RealtimeTurn) -> None:
        """Queue a turn that has begun; waits while eight turns are queued."""
        await self._turns.put(turn)

    async def finished(self) -> None:
        """Wait until all turns that were queued are transcribed, discarded or failed."""
        await self._turns.join()

    async def run(self) -> None:
        """Run turns until cancelled by the owner of this task."""
        while True:
            turn = await self._turns.get()
            await turn.begun.wait()
            await unless(turn.dropped, self._serve(turn))
            self._turns.task_done()

    async def _serve(self, turn: RealtimeTurn) -> None:
        if turn.link is None:
            await self._emit(events.completed(turn.item, "", 0.0, () if turn.scored else None))
            return
        turn.link.after(*self._previous)
        text = asyncio.create_task(self._text(turn, turn.link))
        try:
            await first_failure_or(text, [asyncio.create_task(turn.link.pump())])
        except AuricleError as error:
            log.warning("turn %s failed: %s", turn.item, error)
            turn.over = True
            await self._emit(events.failed(turn.item, error))

    async def _text(self, turn: RealtimeTurn, link: ProcessorLink) -> None:
        """Emit the turn's events. Deltas only append to the text already sent."""
        said, sent = "", 0  # the open segment's text with its separator, and how much was emitted
        whole: list[str] = []
        finals: list[SegmentFinal] = []
        async with aclosing(link.events()) as received:
            async for event in received:
                if isinstance(event, Failed):
                    raise from_code(event.code, event.message)
                if isinstance(event, SegmentPartial | SegmentFinal):
                    settled = event.committed if isinstance(event, SegmentPartial) else event.text
                    said = _following(settled, first=not whole)
                    if len(said) > sent:
                        await self._emit(events.delta(turn.item, said[sent:]))
                        sent = len(said)
                if isinstance(event, SegmentPartial):
                    await self._emit(events.partial(turn.item, event.partial))
                elif isinstance(event, SegmentFinal) and event.text:
                    whole.append(said)
                    finals.append(event)
                    said, sent = "", 0
                    self._previous = event.text, event.language
                    await self._emit(
                        events.segment(
                            turn.item, event.segment, event.text, event.start_ms, event.end_ms
                        )
                    )
        seconds = (turn.end - turn.start) / SAMPLE_RATE
        scores = joined((final.text, final.tokens) for final in finals) if turn.scored else None
        await self._emit(events.completed(turn.item, "".join(whole) + said, seconds, scores))


def _following(text: str, *, first: bool) -> str:
    """Return a segment's text as it follows the segments before, with a space between."""
    text = text.lstrip()
    return f" {text}" if text and not first else text


ClientMessage = str | bytes | dict[str, Any]
_SHORTEST_TURN = SAMPLE_RATE // 10


class RealtimeSession:
    """One realtime session. Call its methods on one event loop.

    Audio positions are 16 kHz samples from the start of the session.
    """

    def __init__(self, frontend: Frontend, speaker: LiveSession, emit: Emit) -> None:
        """`emit` sends an event to the client."""
        self._frontend = frontend
        self._speaker = speaker
        self._emit = emit
        self._config = SessionConfig()
        self._runner = TurnRunner(emit)
        self._lead = frontend.lead()
        self._turn: RealtimeTurn | None = None
        self._loop_turn = LoopTurn()
        self._previous_item: str | None = None
        self._begun_at = 0  # where the input audio buffer begins
        self._audio = AudioIntake(frontend, speaker, self._listening(), self._take)

    async def announce(self) -> None:
        """Emit the first event. Not used behind Dynamo's own frontend, which sends its own."""
        await self._emit(events.server_event("session.created", session=self._described()))

    async def run(self, incoming: AsyncIterator[ClientMessage]) -> None:
        """Run until `incoming` ends and all turns are transcribed.

        An invalid event is answered with an error event, and the session continues. Raises
        AuricleError if the session fails.
        """
        reading = asyncio.create_task(self._read(incoming))
        others = (self._runner.run(), self._audio.holding.run())
        await first_failure_or(reading, [asyncio.create_task(other) for other in others])

    @property
    def resting(self) -> bool:
        """Whether the session can end here: no turn is open, and there is no undecided speech."""
        return self._turn is None and self._audio.resting

    @property
    def resume_at(self) -> int:
        """The session sample from which another session can continue if this one ends now."""
        resting_at = self._audio.resting_at if self._turn is None else None
        return self._audio.heard_samples if resting_at is None else resting_at

    async def _read(self, incoming: AsyncIterator[ClientMessage]) -> None:
        async for message in incoming:
            await self._loop_turn.give_way()
            event: ClientEvent | None = None
            try:
                event = events.parse_event(message)
                await self._handle(event)
            except BadRequest as error:
                named = None if event is None else event.event_id
                await self._emit(events.error_event(error, named))
        async with self._audio.holding:
            self._audio.holding.close()
            if self._turn is not None:
                await self._commit()
        await self._runner.finished()

    async def _handle(self, event: ClientEvent) -> None:
        if isinstance(event, Append):
            await self._audio.take(event.audio)
            return
        async with self._audio.holding:
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
        self._frontend.check_model(config.audio.input.transcription.model)
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
        warnings = {"warnings": config.warnings} if config.warnings else {}
        await self._emit(
            events.server_event("session.updated", session=self._described(), **warnings)
        )

    def _described(self) -> dict[str, Any]:
        """Return the configuration in effect, with the server's values as defaults."""
        whole = msgspec.to_builtins(self._config)
        given = whole["audio"]["input"]
        given["transcription"]["model"] = given["transcription"]["model"] or self._frontend.model
        if (turns := self._config.audio.input.turn_detection) is not None:
            given["turn_detection"] = described(turns, self._endpointing)
        return {"id": self._speaker.session, "object": "realtime.transcription_session", **whole}

    @property
    def _detects_turns(self) -> bool:
        return self._config.audio.input.turn_detection is not None

    @property
    def _endpointing(self) -> EndpointingOptions:
        """The endpointing in effect; manual turns drop silence too, as the model would
        hallucinate words there."""
        return (self._config.audio.input.turn_detection or ServerVad()).over(
            self._frontend.settings
        )

    def _listening(self, at: int = 0) -> Ingest:
        encoding, rate = self._config.encoding
        return Ingest(
            *(rate, encoding, self._frontend.detector, self._endpointing),
            start=ListeningPoint(at, at, at),
            judge=self._frontend.judge,
        )

    def _listen_anew(self) -> None:
        """What comes next is a new input audio buffer."""
        self._begun_at = self._audio.heard_samples
        self._audio.follow_with(self._listening(self._begun_at))

    # ── audio ───────────────────────────────────────────────────────────────

    async def _take(self, heard: list[GateEvent]) -> None:
        """Add speech to the open turn. With turn detection, turns begin and end with speech."""
        starting = False
        for event in heard:
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
                pass  # OpenAI's protocol has no word for a turn that pauses
            elif self._detects_turns and self._turn is not None:
                await self._said(
                    "speech_stopped", self._turn, audio_end_ms=milliseconds(self._turn.end)
                )
                await self._end_turn(self._turn)

    async def _commit(self) -> None:
        """End the turn at the client's request. Raises UnsupportedValue if there is no audio."""
        was_open, begun_at = self._turn is not None, self._begun_at
        await self._audio.flush()
        self._listen_anew()
        if self._turn is not None:
            await self._end_turn(self._turn)
        elif was_open:
            return  # with turn detection, the end of the audio has ended the turn
        elif not self._detects_turns:
            if (samples := self._begun_at - begun_at) < _SHORTEST_TURN:
                raise events.empty_commit(milliseconds(samples))
            await self._end_turn(await self._begin_turn())
        else:
            raise UnsupportedValue("there is no speech to commit: no turn is open")

    async def _clear(self) -> None:
        if self._turn is not None:
            self._turn.drop()
            self._turn = None
        self._audio.ingest.drop()
        self._listen_anew()
        await self._emit(events.server_event("input_audio_buffer.cleared"))

    # ── turns ───────────────────────────────────────────────────────────────

    async def _begin_turn(self) -> RealtimeTurn:
        asked = self._config.audio.input.transcription
        opened = OpenSession(
            session=uuid.uuid4().hex,
            tenant=self._speaker.client.tenant,
            language=asked.spoken,
            languages=asked.among,
            context=asked.context,
            chunk_ms=self._frontend.chunk_ms(asked.chunk),
            trace=self._speaker.trace,
            admission=self._speaker.session,
            hasty=asked.hasty,
            logprobs=bool(self._config.include),
        )
        self._turn = RealtimeTurn(lambda start: self._link(opened, start), scored=opened.logprobs)
        await self._runner.put(self._turn)
        return self._turn

    def _link(self, opened: OpenSession, start: int) -> ProcessorLink:
        resume = ResumePoint(segment_start=start)
        return self._frontend.link(
            opened, resume, session=self._speaker.session, part=str(start), lead=self._lead
        )

    async def _end_turn(self, turn: RealtimeTurn) -> None:
        self._turn = None
        await self._said("committed", turn, previous_item_id=self._previous_item)
        self._previous_item = turn.item
        turn.finish()

    async def _said(self, what: str, turn: RealtimeTurn, **fields: object) -> None:
        await self._emit(
            events.server_event(f"input_audio_buffer.{what}", item_id=turn.item, **fields)
        )
