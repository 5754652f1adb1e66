"""`WS /v1/realtime/translations`: OpenAI's realtime translations, as text without audio."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from auricle.annotation.translation.targets import NO_TRANSLATOR, SAME, check_targets
from auricle.annotation.translation.text import between
from auricle.checkpoints.languages import target_code
from auricle.core.errors import BadRequest, ProtocolError, UnsupportedValue
from auricle.core.limits import EVENT_ID, LANGUAGE, MODEL, check, query_fields
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import Text
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.realtime.socket import SUBPROTOCOLS, RealtimeProtocol
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.request_errors import check_text, json_fault
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol
from auricle.protocol.annotation import SegmentTranslation
from auricle.protocol.sessions import SegmentFinal

# The client's side of OpenAI's realtime translations: its events and settings. No I/O.

RATE, ENCODING = 24_000, "pcm_s16le"
_LANGUAGE = "session.audio.output.language"


class TranslationNoiseReduction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Noise reduction, which has no effect: the model gets the audio unchanged."""

    type: Literal["near_field", "far_field"]
    strength: float | None = None


class SourceTranscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for the text in addition to its translation."""

    model: str


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Absent fields keep their values; None turns an option off."""

    noise_reduction: TranslationNoiseReduction | UnsetType | None = UNSET
    transcription: SourceTranscription | UnsetType | None = UNSET


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`language` is the target: an ISO 639-1 code, or a name."""

    language: str | None = None


class TranslationAudio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Audio options; the output is text only."""

    input: Input | None = None
    output: Output | None = None


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `session.update` may change."""

    audio: TranslationAudio | None = None
    type: Literal["translation"] = "translation"


class Update(msgspec.Struct, frozen=True, tag="session.update"):
    """Change the session."""

    session: Changes
    event_id: str | None = None


class AppendTranslationAudio(msgspec.Struct, frozen=True, tag="session.input_audio_buffer.append"):
    """Audio: base64 in JSON, decoded here; 24 kHz mono PCM, 16 bits, little-endian."""

    audio: bytes
    event_id: str | None = None


class Close(msgspec.Struct, frozen=True, tag="session.close"):
    """The audio has ended; the remaining text and `session.closed` follow."""

    event_id: str | None = None


ClientEvent = Update | AppendTranslationAudio | Close
_decode = msgspec.json.Decoder(ClientEvent).decode
_TYPES = ", ".join(
    str(kind.__struct_config__.tag) for kind in (Update, AppendTranslationAudio, Close)
)


def parse(text: str) -> ClientEvent:
    """Parse an event. Raises ProtocolError, naming the wrong field."""
    try:
        event: ClientEvent = _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(
            f"not an event that is supported ({_TYPES}): {json_fault(error)}"
        ) from None
    check_text("event_id", event.event_id, EVENT_ID, ProtocolError)
    return event


class TranslationConfig(msgspec.Struct, frozen=True):
    """The options in effect. With `transcription`, a model's name, the text is sent as well."""

    language: str = "en"
    transcription: str | None = None
    noise_reduction: TranslationNoiseReduction | None = None

    def updated(self, changes: Changes) -> TranslationConfig:
        """Return it with the changes. Raises UnsupportedValue, naming the field."""
        given = changes.audio or TranslationAudio()
        source, wanted = given.input or Input(), (given.output or Output()).language
        noise, transcription = self.noise_reduction, self.transcription
        if not isinstance(source.noise_reduction, UnsetType):
            noise = source.noise_reduction
        if not isinstance(asked := source.transcription, UnsetType):
            transcription = None if asked is None else asked.model
            check("session.audio.input.transcription.model", transcription, MODEL)
        return TranslationConfig(
            self.language if wanted is None else _code(wanted), transcription, noise
        )

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
    code = target_code(language)
    check_targets((code,), _LANGUAGE)
    return code


class RunningText:
    """Joins the texts of segments into one text that only grows, in whatever order they arrive."""

    def __init__(self) -> None:
        self._segment = 0  # the segment that is being sent
        self._sent = ""  # its text sent so far
        self._last = ""  # the last character sent
        self._known: dict[int, tuple[str, bool]] = {}

    def grown(self, segment: int, text: str, *, ended: bool) -> str:
        """Return the new text, given a segment's text so far, which is complete if it `ended`."""
        if segment < self._segment:
            return ""
        self._known[segment] = (text, ended)
        found = ""
        while (now := self._known.get(self._segment)) is not None:
            text, over = now
            found += self._further(text)
            if not over:
                break
            del self._known[self._segment]
            self._segment, self._sent = self._segment + 1, ""
        return found

    def _further(self, text: str) -> str:
        new = text[len(self._sent) :]
        if not new:
            return ""
        if not self._sent:
            new = between(self._last, new) + new
        self._sent, self._last = text, new[-1]
        return new


def translations_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v1/realtime/translations`, for the frontend's event loop."""

    def check(query: str) -> None:
        """Raise BadRequest, before the handshake, for an unknown model or without a translator."""
        frontend.check_model(query_fields(query).get("model"))
        if frontend.directions.targets is None:
            raise UnsupportedValue(NO_TRANSLATOR, "model")

    async def serve(socket: ClientSocket) -> None:
        await _Session(frontend, socket).run()

    return SocketProtocol(
        "translations",
        serve,
        RealtimeProtocol.error,
        SUBPROTOCOLS,
        check=check,
        refuses_in_band=True,
    )


class _Session:
    """One connection. The target language is fixed once audio has come."""

    def __init__(self, frontend: Frontend, socket: ClientSocket) -> None:
        self._frontend = frontend
        self._socket = socket
        self._config = TranslationConfig()
        self._engine = SessionEngine(frontend)
        self._input, self._output = RunningText(), RunningText()
        self._finals: dict[int, SegmentFinal] = {}  # whose translation is still to come

    async def run(self) -> None:
        """Run until the client closes the session, or draining ends it.

        An event that is wrong is answered with an error event. Raises AuricleError if the session
        fails, ClientDisconnected if the client leaves.
        """
        await self._emit("session.created", session=self._described())
        first = await self._next()
        if isinstance(first, AppendTranslationAudio):
            options = ChannelOptions(
                sample_rate=RATE, encoding=ENCODING, translate=self._config.language
            )
            channel = TextChannel(
                self._frontend, self._socket, options, self._on_text, self._translated
            )
            self._engine.channels.append(channel)
            await self._engine.follow(self._read(channel, first))
        await self._emit("session.closed")

    async def _read(self, channel: TextChannel, event: ClientEvent | None) -> None:
        while isinstance(event, AppendTranslationAudio):
            await channel.take(event.audio)
            event = await self._next()

    async def _next(self) -> AppendTranslationAudio | Close | None:
        """Return the client's next audio or end; None if draining ends the session before."""
        while (message := await self._engine.receive(self._receive)) is not None:
            text, _ = message
            if text is None:
                raise ProtocolError("binary frames are not part of this protocol; send JSON events")
            self._frontend.metrics.bytes("websocket", len(text))
            try:
                event = parse(text)
                if not isinstance(event, Update):
                    return event
                await self._update(event)
            except BadRequest as error:
                await self._socket.send(
                    events.encode(events.error_event(error, events.name_of(text)))
                )
        self._socket.end_early(self._engine.total_samples)
        return None

    async def _receive(self) -> tuple[str | None, bytes]:
        seconds = self._frontend.settings.realtime_idle_seconds
        return await self._socket.receive(seconds, "the next event of the client")

    async def _update(self, event: Update) -> None:
        config = self._config.updated(event.session)
        if self._engine.channels and config.language != self._config.language:
            raise UnsupportedValue(
                "the language cannot change once audio has come; open another session",
                "session.audio.output.language",
            )
        self._frontend.check_translator((config.language,), "session.audio.output.language")
        self._config = config
        await self._emit("session.updated", session=self._described())

    async def _on_text(self, event: Text) -> None:
        """Tell the text, if the client wants it."""
        ended = isinstance(event, SegmentFinal)
        text = event.text if isinstance(event, SegmentFinal) else event.committed
        new = self._input.grown(event.segment, text, ended=ended)
        if new and self._config.transcription is not None:
            await self._emit("session.input_transcript.delta", delta=new)
        if isinstance(event, SegmentFinal) and event.text:
            self._finals[event.segment] = event
        elif ended:  # a segment without text has no translation
            await self._tell(self._output.grown(event.segment, "", ended=True))

    async def _translated(self, event: SegmentTranslation) -> None:
        text = event.committed
        final = self._finals.pop(event.segment, None) if event.final else None
        if final is not None and event.missing == SAME:
            text = final.text
        elif final is not None and event.missing:
            problem = (
                f"the text at {final.start_ms / 1000:.1f} s is not translated: {event.missing}"
            )
            error = {"type": "server_error", "code": event.missing, "message": problem}
            await self._emit("error", error=error | {"param": None, "event_id": None})
        await self._tell(self._output.grown(event.segment, text, ended=event.final))

    async def _tell(self, new: str) -> None:
        if new:
            await self._emit("session.output_transcript.delta", delta=new)

    def _described(self) -> dict[str, object]:
        return self._config.described(self._socket.session, self._frontend.model)

    async def _emit(self, kind: str, **fields: object) -> None:
        await self._socket.send(events.encode(events.server_event(kind, **fields)))
