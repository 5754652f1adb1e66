"""The configuration of a realtime session, as in OpenAI's `session.update`. No I/O.

Options that change the text are honoured or refused by name, like unknown fields. Advisory options
are accepted, and `warnings` names the ones without effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from auricle.config.frontend import (
    MAX_SILENCE_MS,
    MAX_SPEECH_THRESHOLD,
    MIN_SILENCE_MS,
    MIN_SPEECH_THRESHOLD,
)
from auricle.config.settings import FrontendSettings
from auricle.core.errors import UnsupportedValue
from auricle.frontend.audio.endpointing import EndpointingOptions, ServerVadFields
from auricle.frontend.audio.turn_detection import WAITS, Eagerness
from auricle.frontend.transport.options import LENIENT_SWITCHES, ChunkMs, Model, converted, read
from auricle.frontend.transport.transcription_options import TranscriptionOptions


class ServerVad(
    ServerVadFields, frozen=True, kw_only=True, tag="server_vad", forbid_unknown_fields=True
):
    """Turn detection by the server: a turn ends where speech ends."""

    # OpenAI's bounds, which are wider than those in effect.
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    silence_duration_ms: Annotated[int, Meta(ge=0, le=MAX_SILENCE_MS)] | None = None
    idle_timeout_ms: int | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the options in effect, within their bounds; see `ServerVadFields.over`."""
        threshold, silence_ms = self.threshold, self.silence_duration_ms
        if threshold is not None:
            threshold = min(max(threshold, MIN_SPEECH_THRESHOLD), MAX_SPEECH_THRESHOLD)
        if silence_ms is not None:
            silence_ms = max(silence_ms, MIN_SILENCE_MS)
        fields = ServerVadFields(
            threshold=threshold,
            silence_duration_ms=silence_ms,
            prefix_padding_ms=self.prefix_padding_ms,
        )
        return fields.over(settings)

    def warnings(self) -> list[str]:
        """Return sentences on options without effect, or with another value."""
        found = _without_effect(self)
        low, high = MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD
        if self.threshold is not None and not low <= self.threshold <= high:
            found.append(f"turn_detection.threshold is taken as the nearest of {low:g} to {high:g}")
        if self.silence_duration_ms is not None and self.silence_duration_ms < MIN_SILENCE_MS:
            found.append(f"turn_detection.silence_duration_ms is taken as {MIN_SILENCE_MS}")
        return found


class SemanticVad(
    msgspec.Struct, frozen=True, kw_only=True, tag="semantic_vad", forbid_unknown_fields=True
):
    """Turn detection by a turn model, from words and intonation."""

    eagerness: Eagerness | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the server's options, with turns that end as `eagerness` wants."""
        return replace(ServerVadFields().over(settings), turns=WAITS[self.eagerness or "auto"])

    def warnings(self) -> list[str]:
        return _without_effect(self)


TurnDetection = ServerVad | SemanticVad


def _without_effect(wanted: TurnDetection) -> list[str]:
    """Return sentences on options of responses, which this server does not make."""
    return [
        f"turn_detection.{name} has no effect: this server makes no responses"
        for name in ("create_response", "interrupt_response", "idle_timeout_ms")
        if getattr(wanted, name, None)
    ]


def described(wanted: TurnDetection, options: EndpointingOptions) -> dict[str, Any]:
    """Return the turn detection that `wanted` asks for as it is in effect, by `options`."""
    if isinstance(wanted, SemanticVad):
        return {"type": "semantic_vad", "eagerness": wanted.eagerness or "auto"}
    return {
        "type": "server_vad",
        "threshold": options.threshold,
        "prefix_padding_ms": options.pre_roll_ms,
        "silence_duration_ms": options.min_silence_ms,
    }


_G711_RATE = 8_000
_MOST_FIELDS = 100  # of a session.update, objects within it included; there are fewer
# OpenAI's models of these names have no turn detection. Clients that name one do not ask for any,
# and commit.
_COMMITTED_BY_CLIENTS = ("gpt-realtime-whisper", "gpt-live-transcribe")
_EARLY_CHUNK_MS = 320


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


class Transcription(TranscriptionOptions, frozen=True, kw_only=True):
    """Transcription options.

    With `model` None the served model is used. `delay` is the time until text is committed:
    `minimal` and `low` commit sooner than usual. `chunk_ms`, an extension, is the audio between two
    decodes.
    """

    model: Model | None = None
    delay: Delay | None = None
    chunk_ms: ChunkMs | None = None

    @property
    def commit_early(self) -> bool:
        return self.delay in ("minimal", "low")

    @property
    def chunk(self) -> int | None:
        """The audio between two decodes in ms; None for the server's."""
        return self.chunk_ms or (_EARLY_CHUNK_MS if self.delay == "minimal" else None)

    def warnings(self) -> list[str]:
        found = self.without_effect
        if self.delay in ("high", "xhigh"):
            found.append(f"transcription.delay {self.delay} is served as medium")
        return found


class NoiseReduction(_Strict, frozen=True):
    """Noise reduction, which has no effect: the model gets the audio unchanged."""

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


class RealtimeAudio(_Strict, frozen=True):
    """Audio options, for input only."""

    input: AudioInput = AudioInput()


class SessionConfig(_Strict, frozen=True):
    """The whole configuration of a session."""

    type: Literal["transcription"] = "transcription"
    audio: RealtimeAudio = RealtimeAudio()
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

        So do those that are null, unless null is one of their values. Raises UnsupportedValue,
        naming the field.
        """
        if _fields(changes) > _MOST_FIELDS:
            raise UnsupportedValue(f"session has more than {_MOST_FIELDS} fields", "session")
        given = converted(SessionConfig, changes, None)
        merged = _merged(msgspec.to_builtins(self), self._whole(given))
        detection = _inside(_inside(_inside(merged, "audio"), "input"), "turn_detection")
        if detection:
            detection.setdefault("type", "server_vad")
        config = read(_Update, {"session": merged}, switches=LENIENT_SWITCHES).session
        # Both are checked here, and not when a turn begins.
        _ = config.audio.input.transcription.context, config.audio.input.transcription.spoken
        return config

    def _whole(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return the changes, completed by the changes that they imply.

        One way to name languages replaces the other. A model whose turns clients end comes without
        turn detection.
        """
        given = _inside(_inside(changes, "audio"), "input")
        transcription = _inside(given, "transcription")
        implied: dict[str, Any] = {}
        if "languages" in transcription and "language" not in transcription:
            implied["language"] = None
        elif "language" in transcription and "languages" not in transcription:
            implied["languages"] = ()
        whole: dict[str, Any] = {}
        model = transcription.get("model", "")
        if model != self.audio.input.transcription.model and _clients_commit(model):
            whole["turn_detection"] = None
        if not implied and not whole:
            return changes
        whole |= {**given, "transcription": {**transcription, **implied}}
        return {**changes, "audio": {**_inside(changes, "audio"), "input": whole}}

    @property
    def warnings(self) -> list[str]:
        """Sentences on options without effect, or with another value."""
        given = self.audio.input
        found = given.transcription.warnings()
        if given.turn_detection is not None:
            found += given.turn_detection.warnings()
        if given.noise_reduction is not None:
            found.append("noise_reduction has no effect: the model gets the audio unchanged")
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
        if name == "type" and value is None:
            continue
        if isinstance(old, dict) and isinstance(value, dict) and _same_type(old, value):
            merged[name] = _merged(old, value)
        else:
            merged[name] = value
    return merged


def _same_type(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return new.get("type") in (None, old.get("type"))
