"""The client's side of OpenAI's realtime translations: its events and settings. No I/O."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from auricle.checkpoint.languages import language_code, language_name
from auricle.errors import ProtocolError
from auricle.frontend.doors.field_errors import check_text, json_fault
from auricle.text_bounds import EVENT_ID, LANGUAGE, MODEL, check
from auricle.translation.targets import check_targets

RATE, ENCODING = 24_000, "pcm_s16le"
_LANGUAGE = "session.audio.output.language"


class NoiseReduction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """It has no effect: the model hears the audio as it comes."""

    type: Literal["near_field", "far_field"]
    strength: float | None = None


class Transcription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text is told as well as its translation."""

    model: str


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays as it is; None turns it off."""

    noise_reduction: NoiseReduction | UnsetType | None = UNSET
    transcription: Transcription | UnsetType | None = UNSET


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`language` is the target: an ISO 639-1 code, or a name."""

    language: str | None = None


class Audio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """There is no output audio: text only."""

    input: Input | None = None
    output: Output | None = None


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `session.update` may change."""

    audio: Audio | None = None
    type: Literal["translation"] = "translation"


class Update(msgspec.Struct, frozen=True, tag="session.update"):
    """Change the session."""

    session: Changes
    event_id: str | None = None


class Append(msgspec.Struct, frozen=True, tag="session.input_audio_buffer.append"):
    """Audio: base64 in JSON, decoded here; 24 kHz mono PCM, 16 bits, little-endian."""

    audio: bytes
    event_id: str | None = None


class Close(msgspec.Struct, frozen=True, tag="session.close"):
    """The audio has ended; the rest is told, then `session.closed`."""

    event_id: str | None = None


ClientEvent = Update | Append | Close
_decode = msgspec.json.Decoder(ClientEvent).decode
_TYPES = ", ".join(str(kind.__struct_config__.tag) for kind in (Update, Append, Close))


def parse(text: str) -> ClientEvent:
    """Parse an event. Raises ProtocolError, naming what is wrong."""
    try:
        event: ClientEvent = _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(
            f"not an event that is supported ({_TYPES}): {json_fault(error)}"
        ) from None
    check_text("event_id", event.event_id, EVENT_ID, ProtocolError)
    return event


class Config(msgspec.Struct, frozen=True):
    """What is in effect. With `transcription`, a model's name, the text is told as well."""

    language: str = "en"
    transcription: str | None = None
    noise_reduction: NoiseReduction | None = None

    def updated(self, changes: Changes) -> Config:
        """Return it with the changes. Raises UnsupportedValue, naming the field."""
        given = changes.audio or Audio()
        source, wanted = given.input or Input(), (given.output or Output()).language
        noise, transcription = self.noise_reduction, self.transcription
        if not isinstance(source.noise_reduction, UnsetType):
            noise = source.noise_reduction
        if not isinstance(asked := source.transcription, UnsetType):
            transcription = None if asked is None else asked.model
            check("session.audio.input.transcription.model", transcription, MODEL)
        return Config(self.language if wanted is None else _code(wanted), transcription, noise)

    def described(self, session: str, model: str) -> dict[str, Any]:
        """Return it as the protocol has it."""
        transcription = None if self.transcription is None else {"model": self.transcription}
        return {
            "id": session,
            "type": "translation",
            "model": model,
            "audio": {
                "input": {
                    "transcription": transcription,
                    "noise_reduction": msgspec.to_builtins(self.noise_reduction),
                },
                "output": {"language": self.language},
            },
        }


def _code(language: str) -> str:
    check(_LANGUAGE, language, LANGUAGE)
    code = language_code(language_name(language)) or language.strip().lower()
    check_targets((code,), _LANGUAGE)
    return code
