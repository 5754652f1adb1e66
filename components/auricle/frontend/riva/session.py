"""`StreamingRecognize`: one session, between the client's call and a processor."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import ProtocolError, from_code
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.rpc.calls import LiveCall
from auricle.frontend.doors.rpc.schema import parsed
from auricle.frontend.frontend import Frontend
from auricle.frontend.listening.endpointing import EndpointingOptions, GateEvent, Piece
from auricle.frontend.listening.ingest import Ingest
from auricle.frontend.riva.options import (
    RecognitionOptions,
    audio_format,
    parse_config,
    refuse_names,
)
from auricle.frontend.riva.results import PACKAGE, Results
from auricle.frontend.riva.wav import Opening
from auricle.messages import Done, Failed, Final, OpenSession, Partial
from auricle.tasks import Interrupted, LoopTurn, first_failure_or
from auricle.text_bounds import EVENT_ID, check

_AUDIO_FIELD = 2


@dataclass(frozen=True)
class _Asked:
    """What the first message asks for; `request` is the client's name for the call."""

    options: RecognitionOptions
    interim_results: bool
    request: str | None


class StreamingRecognize:
    """Serves the sessions of one frontend, on its event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def run(self, call: LiveCall) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        asked = _asked(await self._first(call))
        self._frontend.check_model(asked.options.model)
        await call.warn(asked.options.warnings)
        await _Session(self._frontend, call, asked).run()

    async def _first(self, call: LiveCall) -> bytes:
        seconds = self._frontend.settings.start_timeout_seconds
        try:
            message = await call.receive(seconds, "the first message")
        except Interrupted:
            raise about_to_go() from None
        if message is None:
            raise ProtocolError("the call ended before its streaming_config")
        return message


class _Session:
    """The session of one call, run by three tasks: reader, pump and writer."""

    def __init__(self, frontend: Frontend, call: LiveCall, asked: _Asked) -> None:
        self._frontend = frontend
        self._door = frontend.front_door
        self._call = call
        self._options = options = asked.options
        self._results = Results(asked.request)
        self._interim_results = asked.interim_results
        self._link = frontend.link(
            OpenSession(
                session=call.session,
                tenant=call.client.tenant,
                language=options.language,
                context=options.context,
                chunk_ms=frontend.chunk_ms(None),
                partials=asked.interim_results,
                trace=call.trace,
                admission=call.session,
            ),
            lead=frontend.lead(),
        )
        self._opening = Opening()
        self._ingest: Ingest | None = None  # until it is known what the audio is
        self._left_of_file: int | None = None  # bytes of audio that a WAV file still has
        self._counted = 0  # session samples that were counted as heard
        self._turn = LoopTurn()

    async def run(self) -> None:
        """Run the session until done; see `StreamingRecognize.run`."""
        writer = asyncio.create_task(self._write())
        others = [asyncio.create_task(part) for part in (self._read(), self._link.pump())]
        await first_failure_or(writer, others)

    # ── from the client ─────────────────────────────────────────────────────

    async def _read(self) -> None:
        idle = self._frontend.settings.idle_timeout_seconds
        while True:
            if self._door.leaving and await self._left():
                return
            if self._ingest is not None:
                self._ingest.expect(self._link.missing)
            try:
                message = await self._call.receive(idle, "the next audio")
            except Interrupted:
                continue
            await self._turn.give_way()
            if message is None:
                await self._end()
                return
            await self._take(_audio(message))

    async def _take(self, data: bytes) -> None:
        """Process a message's audio slice by slice; others run in between."""
        self._frontend.metrics.bytes("grpc", len(data))
        data = self._samples(data)
        if self._ingest is None:
            return
        self._ingest.take(data)
        while self._ingest.ready:
            await self._hand_over(await self._frontend.listened(self._ingest, self._call.trace))
            await self._turn.give_way()

    def _samples(self, data: bytes) -> bytes:
        """Return the samples among a stream's next bytes, which may begin with a WAV header."""
        if self._ingest is None:
            if (found := self._opening.push(data)) is None:
                return b""
            header, data = found
            self._ingest = self._listening(*audio_format(self._options, header))
            self._left_of_file = None if header is None else header.size
        if self._left_of_file is not None:  # what follows the audio of a file is none
            data = data[: self._left_of_file]
            self._left_of_file -= len(data)
        return data

    def _listening(self, encoding: str, sample_rate: int) -> Ingest:
        frontend = self._frontend
        # Silence is dropped whatever the settings: the model would hallucinate words there.
        endpointing = EndpointingOptions.over(
            frontend.settings,
            threshold=None,
            min_silence_ms=self._options.silence_ms,
            pre_roll_ms=None,
        )
        return Ingest(sample_rate, encoding, frontend.detector, endpointing)

    async def _hand_over(self, events: list[GateEvent]) -> None:
        """Send speech to the processor, and count the audio."""
        for event in events:
            if isinstance(event, Piece):
                await self._link.add(event)
        total = 0 if self._ingest is None else self._ingest.total_samples
        seconds = (total - self._counted) / SAMPLE_RATE
        self._counted = total
        if seconds:
            self._frontend.metrics.audio(received=seconds)
            await self._call.heard(seconds)

    async def _end(self) -> None:
        """End the audio, wherever it is."""
        if self._ingest is None:
            if self._opening.begun:
                raise ProtocolError("the audio ended within its WAV header")
            self._link.finish(0)
            return
        await self._hand_over(await self._ingest.end())
        self._link.finish(self._ingest.total_samples)

    async def _left(self) -> bool:
        """End the session early, for draining; return whether it was ended.

        It ends between two segments, or at the drain's deadline even within one.
        """
        ingest = self._ingest
        resume_at = 0 if ingest is None else ingest.resting_at
        if ingest is not None and resume_at is None:
            if not self._door.last_call:
                return False
            await self._hand_over(await ingest.end())
            resume_at = ingest.total_samples
        self._call.goes_at(resume_at or 0)
        self._link.finish(0 if ingest is None else ingest.total_samples)
        return True

    # ── to the client ───────────────────────────────────────────────────────

    async def _write(self) -> None:
        """Send the processor's text, until Done. Raises the error of Failed."""
        async with aclosing(self._link.events()) as events:
            async for event in events:
                if isinstance(event, Partial) and self._interim_results:
                    with self._frontend.tracer.span("send", self._call.trace):
                        await self._tell(self._results.partial(event))
                elif isinstance(event, Final):
                    await self._tell(self._results.final(event))
                elif isinstance(event, Done):
                    return
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)

    async def _tell(self, response: bytes | None) -> None:
        if response is not None:
            await self._call.send(response)


def _asked(data: bytes) -> _Asked:
    message = _parsed(data)
    if message.WhichOneof("streaming_request") != "streaming_config":
        raise ProtocolError("the first message must have streaming_config, not audio_content")
    request = message.id.value if message.HasField("id") else None
    check("id", request, EVENT_ID)
    config = message.streaming_config
    options = parse_config(config.config, streaming=True)
    return _Asked(options, config.interim_results, request)


def _audio(data: bytes) -> bytes:
    message = _parsed(data)
    if message.WhichOneof("streaming_request") == "streaming_config":
        raise ProtocolError("streaming_config can be sent once only, in the first message")
    audio: bytes = message.audio_content
    return audio


def _parsed(data: bytes) -> Any:
    message = parsed(f"{PACKAGE}.StreamingRecognizeRequest", data, bulk=_AUDIO_FIELD)
    refuse_names("runtime_config", message.runtime_config)
    return message
