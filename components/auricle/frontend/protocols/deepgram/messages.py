"""The messages of Deepgram's live protocol, and their JSON. No I/O.

Names and fields are Deepgram's. Times are in seconds from the start of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec
from starlette.responses import JSONResponse, Response

from auricle import __version__
from auricle.audio.constants import SAMPLE_RATE
from auricle.core.errors import CLOSE_INTERNAL, AuricleError, BadRequest, ProtocolError
from auricle.core.sanitize import escaped
from auricle.frontend.session.adapter import Reply, decoded
from auricle.frontend.transport.request_errors import error_headers
from auricle.protocol.stream import Word
from auricle.transcript.confidence import of_text


class NoAudio(BadRequest):
    """The client sent neither audio nor KeepAlive; the close code is Deepgram's for this case."""

    code = "no_audio"
    close_code = CLOSE_INTERNAL

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"NET-0001: neither audio nor a KeepAlive message came within {seconds:g} s"
        )


class KeepAlive(msgspec.Struct, frozen=True, tag="KeepAlive"):
    """Keeps the connection open while no audio is sent."""


class Finalize(msgspec.Struct, frozen=True, tag="Finalize"):
    """All audio so far becomes final text."""


class CloseStream(msgspec.Struct, frozen=True, tag="CloseStream"):
    """The audio has ended."""


class Configure(msgspec.Struct, frozen=True, tag="Configure"):
    """Changes options of the session, which is not supported."""


ClientMessage = KeepAlive | Finalize | CloseStream | Configure
_JSON: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)


def parse_message(text: str) -> ClientMessage:
    """Parse a client's text message. Raises ProtocolError, naming the supported ones."""
    return decoded(text, _JSON, "KeepAlive, Finalize, CloseStream, Configure")


@dataclass(frozen=True)
class DeepgramReplies:
    """Makes the messages of one channel of a session.

    `request` is the session's name, `model` the served one's. `channel` counts from 0.
    """

    request: str
    model: str
    channel: int = 0
    channels: int = 1

    def of(self, channel: int) -> DeepgramReplies:
        return replace(self, channel=channel)

    def results(
        self,
        text: str,
        start: float,
        end: float,
        words: Sequence[Word] = (),
        speakers: Sequence[int | None] = (),
        *,
        is_final: bool,
        speech_final: bool = False,
        from_finalize: bool = False,
    ) -> Reply:
        """Return the transcript of the audio between two times, with `speakers` of its words."""
        return {
            "type": "Results",
            "channel_index": self._index,
            "duration": round(end - start, 3),
            "start": round(start, 3),
            "is_final": is_final,
            "speech_final": speech_final,
            "from_finalize": from_finalize,
            "channel": {"alternatives": [alternative(text, words, speakers=speakers)]},
            "metadata": {
                "request_id": self.request,
                "model_info": model_info(self.model),
                "model_uuid": self.model,
            },
        }

    def metadata(
        self, seconds: float, sha256: str, created: datetime, warnings: tuple[str, ...]
    ) -> Reply:
        """Return the session's last message. `warnings` is an extension of Deepgram's."""
        return {
            "type": "Metadata",
            "transaction_key": "deprecated",
            "request_id": self.request,
            "sha256": sha256,
            "created": timestamp(created),
            "duration": round(seconds, 3),
            "channels": self.channels,
            "models": [self.model],
            "model_info": {self.model: model_info(self.model)},
            "warnings": warnings,
        }

    def configure_failure(self) -> Reply:
        return {
            "type": "ConfigureFailure",
            "request_id": self.request,
            "code": "CONFIGURE_KEYTERMS_NOT_SUPPORTED",
            "description": "options cannot change within a session; open another connection",
        }

    def speech_started(self, sample: int) -> Reply:
        """Return the message of speech that began at a session sample (16 kHz)."""
        at = sample / SAMPLE_RATE
        return {"type": "SpeechStarted", "channel": self._index, "timestamp": at}

    def utterance_end(self, sample: int) -> Reply:
        """Return the message of a silence since a session sample (16 kHz)."""
        at = sample / SAMPLE_RATE
        return {"type": "UtteranceEnd", "channel": self._index, "last_word_end": at}

    @property
    def _index(self) -> list[int]:
        return [self.channel, self.channels]


def alternative(
    text: str,
    words: Sequence[Word] = (),
    confidence: float | None = None,
    speakers: Sequence[int | None] = (),
) -> Reply:
    """Return a transcript, with the words that have times, and their `speakers`, if known.

    Its confidence is `confidence`, by default the mean of its words, and 0 if that is not known:
    clients need a number.
    """
    if confidence is None:
        confidence = of_text(word.confidence for word in words)
    timed: list[Reply] = [
        {
            "word": word.word.lower(),
            "start": word.start_ms / 1000,
            "end": word.end_ms / 1000,
            "confidence": word.confidence or 0.0,
            "punctuated_word": word.text.strip(),
        }
        for word in words
    ]
    for one, speaker in zip(timed, speakers, strict=False):
        if speaker is not None:
            one["speaker"] = speaker_number(speaker)
    return {"transcript": text, "confidence": confidence or 0.0, "words": timed}


def speaker_number(speaker: int) -> int:
    """Return Deepgram's number of a speaker: these count from 0."""
    return speaker - 1


def model_info(model: str) -> dict[str, str]:
    return {"name": model, "version": __version__, "arch": "auricle"}


def timestamp(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def error_message(error: AuricleError) -> Reply:
    return {
        "type": "Error",
        "variant": error.code,
        "description": error.for_client,
        "code": error.code,
    }


def schema_error(error: ProtocolError, text: str) -> Reply:
    """Return the answer to an invalid text message; the session continues."""
    return {
        "type": "Error",
        "variant": "SchemaError",
        "description": error.for_client,
        "message": escaped(text),
    }


def denial(error: AuricleError, request: str) -> Response:
    body = {"err_code": error.code, "err_msg": error.for_client, "request_id": request}
    return JSONResponse(body, error.http_status, error_headers(error))
