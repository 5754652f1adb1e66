"""One realtime session: client events in, server events out, over any transport."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.errors import BadRequest, UnsupportedValue
from auricle.frontend.backend import Backend
from auricle.frontend.endpointing import EndpointingOptions, GateEvent, Piece, SpeechStarted
from auricle.frontend.ingest import Ingest
from auricle.frontend.link import ProcessorLink
from auricle.frontend.realtime import events
from auricle.frontend.realtime.config import ServerVad, SessionConfig
from auricle.frontend.realtime.events import Append, Clear, ClientEvent, Commit, SessionUpdate
from auricle.frontend.realtime.turns import Emit, Turn, TurnRunner
from auricle.messages import OpenSession, ResumePoint
from auricle.tasks import first_failure_or
from auricle.tracing import NO_TRACE

ClientMessage = str | bytes | dict[str, Any]
_SHORTEST_TURN = SAMPLE_RATE // 10


class RealtimeSession:
    """`run` is its only loop. Audio positions are 16 kHz samples of the whole session."""

    def __init__(
        self,
        backend: Backend,
        tenant: str,
        name: str,
        emit: Emit,
        charge: Callable[[float], Awaitable[None]],
        trace: str = NO_TRACE,
        stretch: int = 1,
    ) -> None:
        """`charge` waits while a client is heard more than it may be; for `stretch` see
        `ClientSocket`."""
        self._stretch = stretch
        self._trace = trace
        self._backend = backend
        self._settings = backend.settings
        self._tenant = tenant
        self._emit = emit
        self._charge = charge
        self._id = name
        self._config = SessionConfig()
        self._runner = TurnRunner(emit)
        self._turn: Turn | None = None
        self._previous_item: str | None = None
        self._base = 0  # samples before the current ingest
        self._ingest = self._new_ingest()

    async def announce(self) -> None:
        """The first event; Dynamo's own frontend sends one itself."""
        await self._emit(events.server_event("session.created", session=self._described()))

    async def run(self, incoming: AsyncIterator[ClientMessage]) -> None:
        """Until the client has no more events and every turn has its text.

        A bad event is answered with an error event, and the session goes on.
        """
        reading = asyncio.create_task(self._read(incoming))
        await first_failure_or(reading, [asyncio.create_task(self._runner.run())])

    @property
    def resting(self) -> bool:
        """Whether it can end here: no turn is open, and none would have begun with what was
        heard so far."""
        return self._turn is None and self._ingest.resting_at is not None

    @property
    def resume_at(self) -> int:
        """Session sample from which on another session can go on, if this one ends now."""
        resting_at = self._ingest.resting_at if self.resting else None
        return self._base + (self._ingest.total_samples if resting_at is None else resting_at)

    async def _read(self, incoming: AsyncIterator[ClientMessage]) -> None:
        async for message in incoming:
            event: ClientEvent | None = None
            try:
                event = events.parse_event(message)
                await self._handle(event)
            except BadRequest as error:
                named = None if event is None else event.event_id
                await self._emit(events.error_event(error, named))
        if self._turn is not None:
            await self._commit()
        await self._runner.finished()

    async def _handle(self, event: ClientEvent) -> None:
        match event:
            case SessionUpdate():
                await self._update(event)
            case Append():
                await self._append(event.audio)
            case Commit():
                await self._commit()
            case Clear():
                await self._clear()

    # ── settings ────────────────────────────────────────────────────────────

    async def _update(self, event: SessionUpdate) -> None:
        config = self._config.updated(event.session)
        self._backend.check_model(config.audio.input.transcription.model)
        old, new = self._config.audio.input, config.audio.input
        other_audio = (old.format, old.turn_detection) != (new.format, new.turn_detection)
        if other_audio and self._turn is not None:
            raise UnsupportedValue(
                "the audio format and turn detection cannot change within a turn; "
                "commit or clear the input audio buffer first",
                "session.audio.input",
            )
        self._config = config
        if other_audio:
            self._start_ingest()
        await self._emit(events.server_event("session.updated", session=self._described()))

    def _described(self) -> dict[str, Any]:
        """As it is in effect: the server's values where the client set none."""
        described = self._config.model_dump()
        given = described["audio"]["input"]
        given["transcription"]["model"] = given["transcription"]["model"] or self._backend.model
        if given["turn_detection"] is not None:
            options = self._endpointing
            given["turn_detection"] = {
                "type": "server_vad",
                "threshold": options.threshold,
                "prefix_padding_ms": options.pre_roll_ms,
                "silence_duration_ms": options.min_silence_ms,
            }
        return {"id": self._id, "object": "realtime.transcription_session", **described}

    @property
    def _detects_turns(self) -> bool:
        return self._config.audio.input.turn_detection is not None

    @property
    def _endpointing(self) -> EndpointingOptions:
        """Manual turns drop silence too: it would only give invented words."""
        return (self._config.audio.input.turn_detection or ServerVad()).over(self._settings)

    def _new_ingest(self) -> Ingest:
        encoding, rate = self._config.encoding
        return Ingest(rate, encoding, self._backend.detector, self._endpointing)

    def _start_ingest(self) -> None:
        self._base += self._ingest.total_samples
        self._ingest = self._new_ingest()

    # ── audio ───────────────────────────────────────────────────────────────

    async def _append(self, data: bytes) -> None:
        heard = self._ingest.total_samples
        await self._take(await self._ingest.push(data))
        await self._heard(self._ingest.total_samples - heard)

    async def _heard(self, samples: int) -> None:
        """Audio that was looked at: counted, and charged to the client's limits."""
        if samples:
            self._backend.metrics.audio(received=samples / SAMPLE_RATE)
            await self._charge(samples / SAMPLE_RATE)

    async def _take(self, heard: list[GateEvent]) -> None:
        """Speech to the open turn; with turn detection, turns begin and end with it."""
        starting = False
        for event in heard:
            if isinstance(event, Piece):
                piece = Piece(self._base + event.start, event.pcm, event.boundary)
                turn = self._turn or await self._begin_turn()
                if starting:
                    await self._said(
                        "speech_started", turn, audio_start_ms=milliseconds(piece.start)
                    )
                    starting = False
                await turn.add(piece)
            elif isinstance(event, SpeechStarted):
                starting = self._detects_turns
            elif self._detects_turns and self._turn is not None:
                await self._said(
                    "speech_stopped", self._turn, audio_end_ms=milliseconds(self._turn.end)
                )
                await self._end_turn(self._turn)

    async def _commit(self) -> None:
        """The client ends the turn."""
        ending, heard = self._ingest, self._ingest.total_samples
        was_open = self._turn is not None
        await self._take(await ending.end())
        await self._heard(ending.total_samples - heard)
        self._start_ingest()
        if self._turn is not None:
            await self._end_turn(self._turn)
        elif was_open:
            return  # with turn detection the end of its audio has ended it
        elif not self._detects_turns:
            if ending.total_samples < _SHORTEST_TURN:
                raise events.empty_commit(milliseconds(ending.total_samples))
            await self._end_turn(await self._begin_turn())
        else:
            raise UnsupportedValue("there is no speech to commit: no turn is open")

    async def _clear(self) -> None:
        if self._turn is not None:
            self._turn.drop()
            self._turn = None
        self._ingest.drop()
        self._start_ingest()
        await self._emit(events.server_event("input_audio_buffer.cleared"))

    # ── turns ───────────────────────────────────────────────────────────────

    async def _begin_turn(self) -> Turn:
        asked = self._config.audio.input.transcription
        opened = OpenSession(
            session=uuid.uuid4().hex,
            tenant=self._tenant,
            language=asked.language,
            context=asked.prompt,
            chunk_ms=self._backend.chunk_ms(None, self._stretch),
            trace=self._trace,
        )
        self._turn = Turn(lambda start: self._link(opened, start))
        await self._runner.put(self._turn)
        return self._turn

    def _link(self, opened: OpenSession, start: int) -> ProcessorLink:
        resume = ResumePoint(segment_start=start)
        return self._backend.link(opened, resume, session=self._id, part=str(start))

    async def _end_turn(self, turn: Turn) -> None:
        self._turn = None
        await self._said("committed", turn, previous_item_id=self._previous_item)
        self._previous_item = turn.item
        turn.finish()

    async def _said(self, what: str, turn: Turn, **fields: object) -> None:
        await self._emit(
            events.server_event(f"input_audio_buffer.{what}", item_id=turn.item, **fields)
        )
