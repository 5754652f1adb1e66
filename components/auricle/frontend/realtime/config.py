"""The configuration of a realtime session, as in OpenAI's `session.update`. No I/O.

Unknown fields, and fields that auricle does not support, are rejected by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from auricle.errors import UnsupportedValue
from auricle.frontend.doors.field_errors import bounded, form_fault
from auricle.frontend.listening.server_vad import ServerVadFields
from auricle.quoting import escaped
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL

_G711_RATE = 8_000
_MOST_FIELDS = 100  # of a session.update, objects within it included; there are fewer


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PcmFormat(_Strict):
    """Signed 16-bit little-endian PCM, one channel; `rate` is in Hz."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Literal[24000, 16000] = 24000


class MuLawFormat(_Strict):
    """G.711 µ-law at 8 kHz."""

    type: Literal["audio/pcmu"]


class ALawFormat(_Strict):
    """G.711 A-law at 8 kHz."""

    type: Literal["audio/pcma"]


AudioFormat = Annotated[PcmFormat | MuLawFormat | ALawFormat, Field(discriminator="type")]


class Transcription(_Strict):
    """Transcription options. `prompt` is context for the model, such as names.

    With `model` None the served model is used; with `language` None the language is detected.
    """

    model: Annotated[str, AfterValidator(bounded("model", MODEL))] | None = None
    language: Annotated[str, AfterValidator(bounded("language", LANGUAGE))] | None = None
    prompt: Annotated[str, AfterValidator(bounded("prompt", CONTEXT))] = ""


class ServerVad(ServerVadFields):
    """Turn detection by the server: a turn ends where speech ends."""

    type: Literal["server_vad"] = "server_vad"


class AudioInput(_Strict):
    """Options of the input audio.

    With `turn_detection` None the client ends turns with `input_audio_buffer.commit`.
    """

    format: AudioFormat = PcmFormat()
    transcription: Transcription = Transcription()
    turn_detection: ServerVad | None = ServerVad()
    noise_reduction: None = None


class Audio(_Strict):
    """Audio options; there is no output audio."""

    input: AudioInput = AudioInput()


class SessionConfig(_Strict):
    """The whole configuration of a session."""

    type: Literal["transcription"] = "transcription"
    audio: Audio = Audio()
    include: Annotated[list[str], Field(max_length=0)] | None = None

    @property
    def encoding(self) -> tuple[str, int]:
        """The input audio's encoding, one of `audio.pcm.ENCODINGS`, and its sample rate in Hz."""
        wanted = self.audio.input.format
        if isinstance(wanted, PcmFormat):
            return "pcm_s16le", wanted.rate
        return ("pcm_mulaw" if isinstance(wanted, MuLawFormat) else "pcm_alaw"), _G711_RATE

    def updated(self, changes: dict[str, Any]) -> SessionConfig:
        """Return a copy with `changes` merged in; fields that are not given keep their values.

        Raises UnsupportedValue, naming the field.
        """
        if _fields(changes) > _MOST_FIELDS:
            raise UnsupportedValue(f"session has more than {_MOST_FIELDS} fields", "session")
        try:
            return SessionConfig.model_validate(_merged(self.model_dump(), changes))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(["session", *(str(part) for part in first["loc"])])
            raise UnsupportedValue(form_fault(name, first), escaped(name)) from None


def _fields(changes: dict[str, Any], left: int = _MOST_FIELDS) -> int:
    """Count the fields, of objects within objects too; more than `left` are not counted."""
    count = len(changes)
    for value in changes.values() if count <= left else ():
        if isinstance(value, dict) and count <= left:
            count += _fields(value, left - count)
    return count


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Merge objects field by field. An object of another `type` replaces the old one."""
    merged = dict(ours)
    for name, value in theirs.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict) and _same_type(old, value):
            merged[name] = _merged(old, value)
        else:
            merged[name] = value
    return merged


def _same_type(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return bool(new.get("type", old.get("type")) == old.get("type"))
