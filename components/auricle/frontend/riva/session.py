"""`StreamingRecognize`: one session, between the client's call and a processor."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from auricle.audio.wav import Opening
from auricle.errors import ProtocolError
from auricle.frontend.channel import Channel
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.rpc.calls import LiveCall
from auricle.frontend.doors.rpc.schema import parsed
from auricle.frontend.frontend import Frontend
from auricle.frontend.riva.options import (
    RecognitionOptions,
    audio_format,
    parse_config,
    refuse_names,
)
from auricle.frontend.riva.results import PACKAGE, Results
from auricle.messages.sessions import Final
from auricle.tasks import Interrupted, first_failure_or
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
        self._frontend.check_words(asked.options.words == "aligned", "custom_configuration")
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
        self._options = asked.options
        self._results = Results(asked.request, asked.options.word_offsets)
        self._interim_results = asked.interim_results
        self._left_of_file: int | None = None  # bytes of audio that a WAV file still has

    async def run(self) -> None:
        """Run the session until done; see `StreamingRecognize.run`."""
        if (begun := await self._begin()) is None:
            return
        channel, first = begun
        writer = asyncio.create_task(self._write(channel))
        others = [
            asyncio.create_task(part) for part in (self._read(channel, first), channel.pump())
        ]
        await first_failure_or(writer, others)

    # ── from the client ─────────────────────────────────────────────────────

    async def _begin(self) -> tuple[Channel, bytes] | None:
        """Return the channel and its first samples, once it is known what the audio is.

        None if the call ends before any audio came.
        """
        opening = Opening()
        while True:
            if self._door.leaving:
                self._call.goes_at(0)
                return None
            try:
                message = await self._next()
            except Interrupted:
                continue
            if message is None:
                if opening.begun:
                    raise ProtocolError("the audio ended within its WAV header")
                return None
            if (found := opening.push(message)) is not None:
                header, samples = found
                self._left_of_file = None if header is None else header.size
                return self._channel(*audio_format(self._options, header)), self._within(samples)

    def _channel(self, encoding: str, sample_rate: int) -> Channel:
        options = self._options
        return Channel(
            self._frontend,
            self._call,
            sample_rate,
            encoding,
            language=options.language,
            context=options.context,
            silence=options.silence_ms,
            partials=self._interim_results,
            words=options.words,
        )

    async def _read(self, channel: Channel, first: bytes) -> None:
        await channel.take(first)
        while True:
            if self._door.ends(lambda: channel.resting):
                await self._leave(channel)
                return
            channel.expect()
            try:
                message = await self._next()
            except Interrupted:
                continue
            if message is None:
                await channel.end()
                return
            await channel.take(self._within(message))

    async def _next(self) -> bytes | None:
        """Return the next message's bytes of audio; None at the end of the call."""
        idle = self._frontend.settings.idle_timeout_seconds
        message = await self._call.receive(idle, "the next audio")
        if message is None:
            return None
        data = _audio(message)
        self._frontend.metrics.bytes("grpc", len(data))
        return data

    def _within(self, data: bytes) -> bytes:
        """Return the part of a stream's next bytes that is audio: what follows a file's is none."""
        if self._left_of_file is not None:
            data = data[: self._left_of_file]
            self._left_of_file -= len(data)
        return data

    async def _leave(self, channel: Channel) -> None:
        """End the session early, for draining."""
        self._call.goes_at(await channel.leave())

    # ── to the client ───────────────────────────────────────────────────────

    async def _write(self, channel: Channel) -> None:
        """Send the processor's text until the last. Raises the error the session fails with."""
        async with aclosing(channel.texts()) as texts:
            async for event in texts:
                if isinstance(event, Final):
                    await self._tell(self._results.final(event))
                elif self._interim_results:
                    with self._frontend.tracer.span("send", self._call.trace):
                        await self._tell(self._results.partial(event))

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
