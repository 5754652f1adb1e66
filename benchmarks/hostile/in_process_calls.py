"""Cases of calls, homes, gRPC and translations against the parsers of their rooms; see
`in_process`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from auricle.audio.pcm import PcmStream
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.chunks import Deinterleaver
from auricle.frontend.protocols import twilio, vapi
from auricle.frontend.protocols.audiosocket import AUDIO_RATES, FrameParser
from auricle.frontend.protocols.kserve.messages import (
    audio_of,
    parse_request,
    pcm_of,
    unchecked_request,
)
from auricle.frontend.protocols.kserve.service import RAW_FIELD
from auricle.frontend.protocols.realtime import translations as translation_events
from auricle.frontend.protocols.riva.options import audio_format, parse_config
from auricle.frontend.protocols.riva.service import PACKAGE
from auricle.frontend.protocols.stream.start import parse_end, parse_start
from auricle.frontend.protocols.transcriptions.form import parse_as
from auricle.frontend.protocols.transcriptions.translating import TranslationForm
from auricle.frontend.protocols.wyoming import AudioFormat, EventParser, Ping, Transcribe
from auricle.frontend.transport.grpc.schema import parsed
from benchmarks.hostile.generators.rpc import INFERENCE, RECOGNITION
from benchmarks.hostile.generators.telephones import AUDIOSOCKET, VAPI
from benchmarks.hostile.generators.translations import STREAM

_MOST_PAYLOAD = 1 << 20
_AUDIO_FIELD = 2
_READ_AS: dict[str, type[Any]] = {
    "transcribe": Transcribe,
    "audio-start": AudioFormat,
    "audio-chunk": AudioFormat,
    "ping": Ping,
}
Text = Callable[[bytes], str]
Fields = tuple[tuple[str, str], ...]


def telephones(text: Text, data: dict[str, Any]) -> None:
    """A call; `text` makes a message of a frame's bytes."""
    if data["path"] == AUDIOSOCKET:
        _audiosocket(data["stream"])
    elif data["path"] == VAPI:
        vapi.parse_options(data["query"])
        opcode, first = data["sent"][0]
        start = vapi.parse_start(text(first) if opcode == 1 else None)
        interleaved = Deinterleaver(start.channels, sample_bytes=2)
        for opcode, payload in data["sent"][1:]:
            if opcode == 2:
                interleaved.split(payload)
    else:
        _twilio(text, data["sent"])


def _twilio(text: Text, sent: list[tuple[int, bytes]]) -> None:
    stream = PcmStream(twilio.SAMPLE_RATE, twilio.ENCODING)
    for opcode, payload in sent:
        message = twilio.parse_message(text(payload)) if opcode == 1 else None
        if isinstance(message, twilio.TwilioStart):
            twilio.Call.begun_by(message.start)
        elif isinstance(message, twilio.Media):
            stream.push(message.media.payload)


def _audiosocket(sent: bytes) -> None:
    parser = FrameParser()
    parser.feed(sent)
    while (frame := parser.next()) is not None:
        if frame.kind in AUDIO_RATES:
            PcmStream(AUDIO_RATES[frame.kind], "pcm_s16le").push(frame.payload)


def wyoming(sent: bytes) -> None:
    """The events of one connection."""
    parser = EventParser(_MOST_PAYLOAD)
    parser.feed(sent)
    while (event := parser.next()) is not None:
        if event.kind in _READ_AS:
            event.read_as(_READ_AS[event.kind])


def rpc(data: dict[str, Any]) -> None:
    """A call's messages, as far as they are read before anybody else is asked."""
    service, _, method = data.get("method", "").strip("/").partition("/")
    if service == RECOGNITION:
        _recognition(method, data["messages"])
    elif service == INFERENCE and method in ("ModelInfer", "ModelStreamInfer"):
        for message in data["messages"]:
            request = parsed("inference.ModelInferRequest", message, RAW_FIELD)
            unchecked_request(request)
            parse_request(request)
            pcm_of(*audio_of(request))


def _recognition(method: str, messages: list[bytes]) -> None:
    if method == "Recognize":
        for message in messages:
            request = parsed(f"{PACKAGE}.RecognizeRequest", message, _AUDIO_FIELD)
            parse_config(request.config, streaming=False)
    elif method == "StreamingRecognize":
        for message in messages:
            request = parsed(f"{PACKAGE}.StreamingRecognizeRequest", message, _AUDIO_FIELD)
            if request.HasField("streaming_config"):
                options = parse_config(request.streaming_config.config, streaming=True)
                audio_format(options, None)


def translations(text: Text, fields: Callable[[dict[str, Any]], Fields], data: Any) -> None:
    """A session with translations, or a form; `fields` reads the latter's."""
    if "body" in data:
        form = parse_as(fields(data), TranslationForm)
        form.check()
        _ = form.target
        return
    for number, (opcode, payload) in enumerate(data["sent"]):
        message = text(payload) if opcode == 1 else None
        if data["path"] == STREAM:
            if number == 0:
                parse_start(message)
            elif message is not None:
                parse_end(message)
        elif message is None:
            raise ProtocolError("binary frames are not part of this protocol")
        else:
            event = translation_events.parse(message)
            if isinstance(event, translation_events.Update):
                translation_events.TranslationConfig().updated(event.session)
            elif isinstance(event, translation_events.AppendTranslationAudio):
                PcmStream(translation_events.RATE).push(event.audio)
