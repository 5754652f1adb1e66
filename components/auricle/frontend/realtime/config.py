"""The configuration of a realtime session, as in OpenAI's `session.update`. No I/O.

What changes the text is honoured or refused by name, as unknown fields are. What is advisory is
taken, and `warnings` names what has no effect.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from auricle.errors import UnsupportedValue
from auricle.frontend.doors.hints import Hints
from auricle.frontend.doors.options import LENIENT_SWITCHES, ChunkMs, Model, read
from auricle.frontend.realtime.turn_detection import ServerVad, TurnDetection

_G711_RATE = 8_000
_MOST_FIELDS = 100  # of a session.update, objects within it included; there are fewer
# OpenAI's models of these names have no turn detection. Clients that name one do not ask for any,
# and commit.
_COMMITTED_BY_CLIENTS = ("gpt-realtime-whisper", "gpt-live-transcribe")
_HASTY_CHUNK_MS = 320


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PcmFormat(_Strict, frozen=True, tag="audio/pcm"):
    """Signed 16-bit little-endian PCM, one channel; `rate` is in Hz."""

    rate: Literal[24000, 16000] = 24000


class MuLawFormat(_Strict, frozen=True, tag="audio/pcmu"):
    """G.711 µ-law at 8 kHz."""


class ALawFormat(_Strict, frozen=True, tag="audio/pcma"):
    """G.711 A-law at 8 kHz."""


Delay = Literal["minimal", "low", "medium", "high", "xhigh"]


class Transcription(Hints, frozen=True, kw_only=True):
    """Transcription options.

    With `model` None the served model is used. `delay` says how long text waits before it is sent
    for good: `minimal` and `low` wait less than usual. `chunk_ms`, an extension, is the audio
    between two decodes.
    """

    model: Model | None = None
    delay: Delay | None = None
    chunk_ms: ChunkMs | None = None

    @property
    def hasty(self) -> bool:
        """Whether text is committed sooner than usual."""
        return self.delay in ("minimal", "low")

    @property
    def chunk(self) -> int | None:
        """The audio between two decodes in ms; None for the server's."""
        return self.chunk_ms or (_HASTY_CHUNK_MS if self.delay == "minimal" else None)

    def warnings(self) -> list[str]:
        """Return sentences on what has no effect."""
        found = self.without_effect
        if self.delay in ("high", "xhigh"):
            found.append(f"transcription.delay {self.delay} is served as medium")
        return found


class NoiseReduction(_Strict, frozen=True):
    """Noise reduction, which has no effect: the model hears the audio as it comes."""

    type: Literal["near_field", "far_field"] | None = None
    strength: Annotated[float, Meta(ge=0, le=1)] | None = None


class AudioInput(_Strict, frozen=True):
    """Options of the input audio.

    With `turn_detection` None the client ends turns with `input_audio_buffer.commit`.
    """

    format: PcmFormat | MuLawFormat | ALawFormat = PcmFormat()
    transcription: Transcription = Transcription()
    turn_detection: TurnDetection | None = ServerVad()
    noise_reduction: NoiseReduction | None = None


class Audio(_Strict, frozen=True):
    """Audio options; there is no output audio."""

    input: AudioInput = AudioInput()


class SessionConfig(_Strict, frozen=True):
    """The whole configuration of a session."""

    type: Literal["transcription"] = "transcription"
    audio: Audio = Audio()
    include: (
        Annotated[
            tuple[Literal["item.input_audio_transcription.logprobs"], ...], Meta(max_length=1)
        ]
        | None
    ) = None

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
        merged = _merged(msgspec.to_builtins(self), self._whole(changes))
        detection = _inside(_inside(_inside(merged, "audio"), "input"), "turn_detection")
        if detection:
            detection.setdefault("type", "server_vad")
        config = read(_Update, {"session": merged}, switches=LENIENT_SWITCHES).session
        # Both are checked here, and not when a turn begins.
        _ = config.audio.input.transcription.context, config.audio.input.transcription.spoken
        return config

    def _whole(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return the changes with what they imply.

        One way to name languages replaces the other. A model whose turns clients end comes without
        turn detection.
        """
        given = _inside(_inside(changes, "audio"), "input")
        asked = _inside(given, "transcription")
        implied: dict[str, Any] = {}
        if "languages" in asked and "language" not in asked:
            implied["language"] = None
        elif "language" in asked and "languages" not in asked:
            implied["languages"] = ()
        whole: dict[str, Any] = {}
        model = asked.get("model", "")
        if model != self.audio.input.transcription.model and _clients_commit(model):
            whole["turn_detection"] = None
        if not implied and not whole:
            return changes
        whole |= {**given, "transcription": {**asked, **implied}}
        return {**changes, "audio": {**_inside(changes, "audio"), "input": whole}}

    @property
    def warnings(self) -> list[str]:
        """Sentences on what was asked for and has no effect, or another one."""
        given = self.audio.input
        found = given.transcription.warnings()
        if given.turn_detection is not None:
            found += given.turn_detection.warnings()
        if given.noise_reduction is not None:
            found.append("noise_reduction has no effect: the model hears the audio as it comes")
        return found


class _Update(_Strict, frozen=True):
    session: SessionConfig


def _clients_commit(model: object) -> bool:
    return isinstance(model, str) and model.startswith(_COMMITTED_BY_CLIENTS)


def _inside(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


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
