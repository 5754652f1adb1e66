"""The methods of `nvidia.riva.asr.RivaSpeechRecognition`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from auricle.annotation.speakers.model import NO_SPEAKER_MODEL
from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.wav import Opening, is_wav, wav_header
from auricle.core.aio import with_timeout
from auricle.core.errors import ProtocolError
from auricle.core.limits import EVENT_ID, check
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import Text, speakers_of
from auricle.frontend.protocols.riva.options import (
    RecognitionOptions,
    audio_format,
    parse_config,
    refuse_names,
)
from auricle.frontend.recordings.calls import Received, RecordingCalls, stored
from auricle.frontend.recordings.transcriber import RecordingSegment
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.admission import first_message
from auricle.frontend.transport.grpc.calls import LiveCall, LiveCalls
from auricle.frontend.transport.grpc.incoming import (
    Context,
    Incoming,
    Method,
    Methods,
    only_message,
)
from auricle.frontend.transport.grpc.schema import message, parsed
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from auricle.protocol.stream import Word
from auricle.transcript.confidence import of_text

# The responses of Riva's recognition. No I/O. Times are in seconds of the session's audio.

PACKAGE = "nvidia.riva.asr"
_CHANNEL = 1
# As Riva's own server has it; 1.0 is what clients take for the end of an utterance.
_COMMITTED, _PARTIAL, _FINAL = 0.9, 0.1, 1.0


@dataclass(frozen=True)
class Results:
    """Makes the responses of one call; `request` is the client's name for it, None without.

    With `word_offsets` final text has words with times.
    """

    request: str | None
    word_offsets: bool = False

    def partial(self, event: SegmentPartial) -> bytes | None:
        """Return the text of the open segment; None if it has none.

        Committed text is a result of its own, before the text that may change.
        """
        parts = ((event.committed, _COMMITTED), (event.partial, _PARTIAL))
        seconds = event.audio_ms / 1000
        results = [_live(text, stability, seconds) for text, stability in parts if text]
        return self._response("StreamingRecognizeResponse", results) if results else None

    def final(self, event: SegmentFinal) -> bytes | None:
        """Return a segment's final text; None if there is none."""
        if not event.text:
            return None
        confidence = of_text(word.confidence for word in event.words)
        result = _live("", _FINAL, event.end_ms / 1000, is_final=True)
        speakers = speakers_of(event)
        result["alternatives"] = [self._alternative(event.text, event.words, confidence, speakers)]
        return self._response("StreamingRecognizeResponse", [result])

    def recording(self, segments: Sequence[RecordingSegment]) -> bytes:
        """Return the texts of a recording's segments."""
        results = [
            {
                "alternatives": [self._alternative(one.text, one.words.words, one.confidence)],
                "channel_tag": _CHANNEL,
                "audio_processed": one.end / SAMPLE_RATE,
            }
            for one in segments
        ]
        return self._response("RecognizeResponse", results)

    def _alternative(
        self,
        text: str,
        words: Sequence[Word],
        confidence: float | None,
        speakers: Sequence[int | None] = (),
    ) -> dict[str, Any]:
        # Unknown values stay at 0, as in any message of Protocol Buffers.
        timed = [_word(word) for word in words] if self.word_offsets else []
        for one, speaker in zip(timed, speakers, strict=False):
            one["speaker_tag"] = speaker or 0
        return {"transcript": _ended(text), "confidence": confidence or 0.0, "words": timed}

    def _response(self, kind: str, results: list[dict[str, Any]]) -> bytes:
        response = message(f"{PACKAGE}.{kind}")(results=results)
        if self.request is not None:
            response.id.value = self.request
        data: bytes = response.SerializeToString()
        return data


def _word(word: Word) -> dict[str, Any]:
    return {
        "start_time": word.start_ms,
        "end_time": word.end_ms,
        "word": word.text.strip(),
        "confidence": word.confidence or 0.0,
    }


def _ended(text: str) -> str:
    """Return final text as Riva's clients expect it: they join results without a space."""
    return f"{text} "


def _live(text: str, stability: float, seconds: float, *, is_final: bool = False) -> dict[str, Any]:
    return {
        "alternatives": [{"transcript": text}],
        "is_final": is_final,
        "stability": stability,
        "channel_tag": _CHANNEL,
        "audio_processed": seconds,
    }


# `StreamingRecognize`: one session, between the client's call and a processor.

_AUDIO_FIELD = 2


@dataclass(frozen=True)
class _FirstMessage:
    """The content of the first message; `request` is the client's name for the call."""

    options: RecognitionOptions
    interim_results: bool
    request: str | None


class StreamingRecognize:
    """Serves the sessions of one frontend, on its event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def run(self, call: LiveCall) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientDisconnected if the
        client leaves."""
        first = _parse_first(await self._first(call))
        wanted = first.options
        param = "custom_configuration"
        warnings = self._frontend.check_options(wanted.model, wanted.words, param)
        self._frontend.check_language(wanted.language, param="language_code")
        self._frontend.check_offered_speakers(wanted.diarize)
        if wanted.diarize and self._frontend.settings.speaker_model is None:
            warnings = (*warnings, f"diarization_config has no effect: {NO_SPEAKER_MODEL}")
            first = replace(first, options=replace(wanted, diarize=False))
        await call.warn((*warnings, *wanted.warnings))
        await _Session(self._frontend, call, first).run()

    async def _first(self, call: LiveCall) -> bytes:
        seconds = self._frontend.settings.start_timeout_seconds
        message = await first_message(call.receive(seconds, "the first message"))
        if message is None:
            raise ProtocolError("the call ended before its streaming_config")
        return message


class _Session:
    def __init__(self, frontend: Frontend, call: LiveCall, first: _FirstMessage) -> None:
        self._frontend = frontend
        self._engine = SessionEngine(frontend)
        self._call = call
        self._options = first.options
        with_words = first.options.word_offsets or first.options.diarize
        self._results = Results(first.request, with_words)
        self._interim_results = first.interim_results
        self._left_of_file: int | None = None  # bytes of audio that a WAV file still has

    async def run(self) -> None:
        """Run the session until done; see `StreamingRecognize.run`."""
        if (begun := await self._begin()) is None:
            return
        channel, first = begun
        self._engine.channels.append(channel)
        await self._engine.run(self._read(channel, first))

    # ── from the client ─────────────────────────────────────────────────────

    async def _begin(self) -> tuple[TextChannel, bytes] | None:
        """Return the channel and its first samples, once the format of the audio is known.

        None if the call ends without audio.
        """
        opening = Opening()
        while (message := await self._engine.receive(self._next)) is not None:
            data, ended = message
            if ended:
                if opening.begun:
                    raise ProtocolError("the audio ended within its WAV header")
                return None
            if (found := opening.push(data)) is not None:
                header, samples = found
                self._left_of_file = None if header is None else header.size
                return self._channel(*audio_format(self._options, header)), self._within(samples)
        self._call.end_early(0)
        return None

    def _channel(self, encoding: str, sample_rate: int) -> TextChannel:
        options = self._options
        audio = ChannelOptions(
            sample_rate=sample_rate,
            encoding=encoding,
            language=options.language,
            context=options.context,
            silence=options.silence_ms,
            partials=self._interim_results,
            words=options.words,
            diarize=options.diarize,
            max_speakers=options.max_speakers,
        )
        return TextChannel(self._frontend, self._call, audio, self._on_text)

    async def _read(self, channel: TextChannel, first: bytes) -> None:
        await channel.take(first)
        while (message := await self._engine.receive(self._next)) is not None:
            data, ended = message
            if ended:
                await self._engine.end()
                return
            await channel.take(self._within(data))
        self._call.end_early(await self._engine.leave())

    async def _next(self) -> tuple[bytes, bool]:
        """Return the next message's bytes of audio, and whether the call has ended instead."""
        idle = self._frontend.settings.idle_timeout_seconds
        message = await self._call.receive(idle, "the next audio")
        if message is None:
            return b"", True
        data = _audio(message)
        self._frontend.metrics.bytes("grpc", len(data))
        return data, False

    def _within(self, data: bytes) -> bytes:
        """Return the audio in a stream's next bytes, without bytes after a file's audio."""
        if self._left_of_file is not None:
            data = data[: self._left_of_file]
            self._left_of_file -= len(data)
        return data

    # ── to the client ───────────────────────────────────────────────────────

    async def _on_text(self, event: Text) -> None:
        if isinstance(event, SegmentFinal):
            await self._tell(self._results.final(event))
        elif self._interim_results:
            with self._frontend.tracer.span("send", self._call.trace):
                await self._tell(self._results.partial(event))

    async def _tell(self, response: bytes | None) -> None:
        if response is not None:
            await self._call.send(response)


def _parse_first(data: bytes) -> _FirstMessage:
    message = _parsed(data)
    if message.WhichOneof("streaming_request") != "streaming_config":
        raise ProtocolError("the first message must have streaming_config, not audio_content")
    request = message.id.value if message.HasField("id") else None
    check("id", request, EVENT_ID)
    config = message.streaming_config
    options = parse_config(config.config, streaming=True)
    return _FirstMessage(options, config.interim_results, request)


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


def received(data: bytes) -> Received:
    """Parse a RecognizeRequest and write its audio to disk; call this in a worker thread.

    Samples get a WAV header, so that they can be decoded as a file. Raises BadRequest and
    StorageFull.
    """
    message = parsed(f"{PACKAGE}.RecognizeRequest", data, bulk=_AUDIO_FIELD)
    request = message.id.value if message.HasField("id") else None
    check("id", request, EVENT_ID)
    options = parse_config(message.config, streaming=False)
    audio: bytes = message.audio
    header = b""
    if options.encoding is not None and not is_wav(audio):
        header = wav_header(*audio_format(options, None), len(audio))
    return Received(
        stored(header, audio),
        len(audio),
        Results(request, options.word_offsets).recording,
        options.model,
        options.language,
        options.context,
        options.silence_ms,
        options.warnings,
        grid_words=True,
        words=options.word_offsets,
    )


SERVICE = f"{PACKAGE}.RivaSpeechRecognition"
_MESSAGE_SECONDS = 10.0


def riva_methods(frontend: Frontend, access: Access, recordings: RecordingCalls) -> Methods:
    slow_reader_seconds = frontend.settings.slow_reader_seconds
    calls = LiveCalls(access, frontend.admission, frontend.live_sessions, slow_reader_seconds)
    streaming = StreamingRecognize(frontend)

    async def stream(incoming: Incoming, context: Context) -> None:
        await calls.serve(incoming, context, "riva", streaming.run)

    async def recognize(incoming: Incoming, context: Context) -> bytes:
        return await recordings.serve(incoming, context, "riva", received)

    async def config(incoming: Incoming, context: Context) -> bytes:
        access.client(incoming.metadata)
        data = await with_timeout(_MESSAGE_SECONDS, only_message(context), "the call's message")
        wanted = parsed(f"{PACKAGE}.RivaSpeechRecognitionConfigRequest", data).model_name
        frontend.check_model(wanted or None)
        return _configs((wanted,) if wanted else frontend.models)

    return {
        SERVICE: {
            "Recognize": Method(recognize),
            "StreamingRecognize": Method(stream, streams=True),
            "GetRivaSpeechRecognitionConfig": Method(config),
        }
    }


def _configs(names: tuple[str, ...]) -> bytes:
    response = message(f"{PACKAGE}.RivaSpeechRecognitionConfigResponse")()
    about = {"type": "online", "streaming": "True", "sample_rate": str(SAMPLE_RATE)}
    for name in names:
        response.model_config.add(model_name=name, parameters=about)
    data: bytes = response.SerializeToString()
    return data
