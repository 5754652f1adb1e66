"""What a client may set of a realtime session, as OpenAI's `session.update` has it. Pure.

Unknown fields, and fields whose effect we do not have, are refused by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auricle.errors import UnsupportedValue
from auricle.frontend.server_vad import ServerVadFields
from auricle.settings import MAX_CONTEXT_CHARACTERS

_G711_RATE = 8_000


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PcmFormat(_Strict):
    """Signed 16-bit little-endian, one channel."""

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
    """`prompt` is context the model may take into account, such as names."""

    model: str | None = None
    language: str | None = None
    prompt: str = Field(default="", max_length=MAX_CONTEXT_CHARACTERS)


class ServerVad(ServerVadFields):
    """Turns end where speech ends."""

    type: Literal["server_vad"] = "server_vad"


class AudioInput(_Strict):
    """`turn_detection` None: the client ends turns with `input_audio_buffer.commit`."""

    format: AudioFormat = PcmFormat()
    transcription: Transcription = Transcription()
    turn_detection: ServerVad | None = ServerVad()
    noise_reduction: None = None


class Audio(_Strict):
    """Only input: auricle does not speak."""

    input: AudioInput = AudioInput()


class SessionConfig(_Strict):
    """The whole of it."""

    type: Literal["transcription"] = "transcription"
    audio: Audio = Audio()
    include: Annotated[list[str], Field(max_length=0)] | None = None

    @property
    def encoding(self) -> tuple[str, int]:
        """Of the audio that is appended, and its sample rate."""
        wanted = self.audio.input.format
        if isinstance(wanted, PcmFormat):
            return "pcm_s16le", wanted.rate
        return ("pcm_mulaw" if isinstance(wanted, MuLawFormat) else "pcm_alaw"), _G711_RATE

    def updated(self, changes: dict[str, Any]) -> SessionConfig:
        """With `changes`, of which each given object or value replaces ours.

        Raises UnsupportedValue naming the field.
        """
        try:
            return SessionConfig.model_validate(_merged(self.model_dump(), changes))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(["session", *(str(part) for part in first["loc"])])
            reason = (
                "is not supported"
                if first["type"] == "extra_forbidden"
                else f"{first['input']!r} cannot be used: {first['msg']}"
            )
            raise UnsupportedValue(f"{name} {reason}", name) from None


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Objects are merged field by field; a format of another type is a new object."""
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
