"""`WS /v2/listen`: Deepgram's protocol of turns, Flux."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta, field

from auricle.core.errors import AuricleError, UnsupportedValue
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.deepgram.live import SUBPROTOCOLS
from auricle.frontend.protocols.deepgram.messages import CloseStream, KeepAlive, NoAudio
from auricle.frontend.protocols.deepgram.options import (
    REFUSED,
    REPEATED,
    Encoding,
    audio_form,
    read_options,
    terms_of,
)
from auricle.frontend.session.adapter import AudioOptions, Reply, decoded, encode
from auricle.frontend.session.turns import Cause, EndpointingPolicy, Turn, TurnEvent, Turns
from auricle.frontend.session.websocket_session import ClientCommand, Summary, WebSocketSession
from auricle.frontend.transport.options import Model, Others, SampleRate, read
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol

# The options of `WS /v2/listen`. No I/O.

_THRESHOLD = 0.7  # Deepgram's default
_OTHERS = Others(
    {name: REFUSED[name] for name in ("profanity_filter", "numerals", "redact")},
    ("language_hint", "mip_opt_out", "tag"),
    REPEATED,
)


class Thresholds(msgspec.Struct, frozen=True):
    """The client's thresholds; without `eager` no message precedes the end of a turn.

    `timeout_ms` of silence end a turn, whatever the confidence.
    """

    eot: Annotated[float, Meta(ge=0.5, le=1.0)] = field(default=_THRESHOLD, name="eot_threshold")
    eager: Annotated[float, Meta(ge=0.3, le=0.9)] | None = field(
        default=None, name="eager_eot_threshold"
    )
    timeout_ms: Annotated[int, Meta(ge=500, le=60_000)] = field(
        default=5_000, name="eot_timeout_ms"
    )

    def checked(self) -> Thresholds:
        """Return the thresholds. Raises UnsupportedValue if `eager` is above `eot`."""
        if self.eager is not None and self.eager > self.eot:
            raise UnsupportedValue(
                f"eager_eot_threshold ({self.eager:g}) is above eot_threshold ({self.eot:g})",
                "eager_eot_threshold",
            )
        return self

    def policy(self, min_silence_ms: int, *, judged: bool) -> EndpointingPolicy:
        return EndpointingPolicy(
            *(self.eot, self.timeout_ms, _THRESHOLD, min_silence_ms), self.eager, judged=judged
        )


class _Given(Thresholds, frozen=True, kw_only=True):
    encoding: Encoding | None = None
    sample_rate: SampleRate | None = None
    model: Model | None = None
    keyterm: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FluxOptions(AudioOptions):
    thresholds: Thresholds
    policy: EndpointingPolicy


def parse_flux_options(query: str, min_silence_ms: int, *, judged: bool = False) -> FluxOptions:
    """Parse the query string. Raises BadRequest, which names the option and its valid values.

    `min_silence_ms` is the silence that ends speech in other protocols; `judged`: there is a turn
    model.
    """
    given, warnings = read_options(query, _Given, _OTHERS)
    encoding, sample_rate = audio_form(given.encoding, given.sample_rate)
    thresholds = Thresholds(given.eot, given.eager, given.timeout_ms).checked()
    policy = thresholds.policy(min_silence_ms, judged=judged)
    return FluxOptions(
        encoding=encoding,
        sample_rate=sample_rate,
        model=given.model,
        context=terms_of(given.keyterm),
        partials=True,
        silence=policy.silence,
        thresholds=thresholds,
        policy=policy,
        warnings=tuple(warnings),
    )


# The messages of `WS /v2/listen`, and their JSON. No I/O.
#
# Names and fields are Deepgram's. Times are in seconds from the start of the session.


class ForceEndTurn(msgspec.Struct, frozen=True, tag="ForceEndTurn"):
    """Ends the turn."""


class GivenThresholds(msgspec.Struct, frozen=True, omit_defaults=True):
    eot_threshold: float | None = None
    eager_eot_threshold: float | None = None
    eot_timeout_ms: int | None = None


class ConfigureFlux(msgspec.Struct, frozen=True, tag="Configure"):
    """Changes options of the session. Only the thresholds can change."""

    thresholds: GivenThresholds | None = None
    keyterms: str | list[str] | None = None
    language_hints: list[str] | None = None
    numerals: bool | None = None


_EVENTS: Mapping[TurnEvent, str] = {
    "started": "StartOfTurn",
    "updated": "Update",
    "paused": "EagerEndOfTurn",
    "resumed": "TurnResumed",
    "ended": "EndOfTurn",
}
_TRIGGERS: Mapping[Cause, str] = {"sure": "model", "silence": "timeout", "client": "manual"}
ClientMessage = KeepAlive | ForceEndTurn | CloseStream | ConfigureFlux
_JSON: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)


def parse_message(text: str) -> ClientMessage:
    """Parse a client's text message. Raises ProtocolError, naming the supported ones."""
    return decoded(text, _JSON, "ForceEndTurn, Configure, KeepAlive, CloseStream")


class FluxReplies:
    """Makes the messages of one session, each with its number: send them in that order."""

    def __init__(self, request: str) -> None:
        self._request = request
        self._numbers = itertools.count()

    def connected(self) -> Reply:
        return {"type": "Connected", "request_id": self._request, "sequence_id": self.number()}

    def warning(self, description: str) -> Reply:
        return {
            "type": "Warning",
            "request_id": self._request,
            "sequence_id": self.number(),
            "code": "OPTION_WITHOUT_EFFECT",
            "description": description,
        }

    def turn(
        self, event: TurnEvent, turn: Turn, confidence: float = 0.0, cause: Cause | None = None
    ) -> list[Reply]:
        """Return the message about a turn; `confidence` is the end-of-turn confidence."""
        reply: Reply = {
            "type": "TurnInfo",
            "request_id": self._request,
            "sequence_id": self.number(),
            "event": _EVENTS[event],
            "turn_index": turn.index,
            "audio_window_start": round(turn.begin, 3),
            "audio_window_end": round(turn.end, 3),
            "transcript": turn.text,
            "words": _words(turn),
            "end_of_turn_confidence": confidence,
        }
        return [reply if cause is None else reply | {"trigger": _TRIGGERS[cause]}]

    def configured(self, thresholds: Thresholds, keyterms: str) -> Reply:
        """Return the answer to Configure, with all values in effect."""
        return {
            "type": "ConfigureSuccess",
            "request_id": self._request,
            "sequence_id": self.number(),
            "thresholds": {
                "eot_threshold": thresholds.eot,
                "eager_eot_threshold": thresholds.eager,
                "eot_timeout_ms": thresholds.timeout_ms,
            },
            "keyterms": keyterms.split(", ") if keyterms else [],
        }

    def not_configured(self, error: AuricleError) -> Reply:
        return {
            "type": "ConfigureFailure",
            "request_id": self._request,
            "sequence_id": self.number(),
            "code": error.code,
            "description": error.for_client,
        }

    def number(self) -> int:
        return next(self._numbers)


def _words(turn: Turn) -> list[Reply]:
    """Return the words of a turn: clients drop turns without words.

    Clients need a confidence: it is 0 if it is not known.
    """
    found: list[Reply] = []
    for one in turn.spoken:
        known = [(word.text.strip(), word.confidence or 0.0) for word in one.words]
        for word, confidence in known or [(word, 0.0) for word in one.text.split()]:
            found.append({"word": word, "confidence": confidence})
    return found


def fatal(error: AuricleError, number: int) -> Reply:
    return {
        "type": "Error",
        "sequence_id": number,
        "code": error.code,
        "description": error.for_client,
    }


def flux_protocol(frontend: Frontend) -> SocketProtocol:
    # The number of an error's message, which counts among the messages of its session.
    numbers: WeakKeyDictionary[AuricleError, int] = WeakKeyDictionary()

    def options_of(query: str) -> FluxOptions:
        silence_ms = frontend.settings.min_silence_ms
        return parse_flux_options(query, silence_ms, judged=frontend.turns is not None)

    async def serve(socket: ClientSocket) -> None:
        options = options_of(socket.query_string)
        options = options.with_warnings(frontend.check_model(options.model))
        replies = FluxReplies(socket.session)
        adapter = _Flux(options, replies, frontend.settings.listen_idle_seconds)
        try:
            await WebSocketSession(frontend, socket, options, adapter).run()
        except AuricleError as error:
            numbers[error] = replies.number()
            raise

    def check(query: str) -> None:
        frontend.check_model(options_of(query).model)

    return SocketProtocol(
        "flux",
        serve,
        lambda error: encode(fatal(error, numbers.get(error, 0))),
        SUBPROTOCOLS,
        check=check,
        refuses_in_band=True,
    )


class _Flux:
    empty_ends = False

    def __init__(self, options: FluxOptions, replies: FluxReplies, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = replies
        self._thresholds = options.thresholds
        self._turns = Turns(options.policy, replies)

    def idle_error(self) -> NoAudio:
        return NoAudio(self.idle_seconds)

    def serializer(self, channel: int) -> Turns:
        return self._turns

    def first_messages(self) -> list[Reply]:
        connected = self._replies.connected()
        return [connected, *map(self._replies.warning, self._options.warnings)]

    def command(self, text: str) -> ClientCommand:
        """Parse a text message. Raises ProtocolError if it is invalid."""
        match parse_message(text):
            case ForceEndTurn():
                return ClientCommand(finalize=True)
            case CloseStream():
                return ClientCommand(ends=True)
            case ConfigureFlux() as wanted:
                return self._configured(wanted)
            case _:
                return ClientCommand()

    def last_messages(self, summary: Summary) -> list[Reply]:
        return self._turns.closed()

    def _configured(self, wanted: ConfigureFlux) -> ClientCommand:
        try:
            changed = self._changed(wanted)
        except UnsupportedValue as error:
            refused = error
            return ClientCommand(lambda: [self._replies.not_configured(refused)])
        before = self._turns.policy
        policy = changed.policy(before.min_silence_ms, judged=before.judged)
        self._turns.policy, self._thresholds = policy, changed
        return ClientCommand(
            lambda: [self._replies.configured(changed, self._options.context)],
            silence=policy.silence,
        )

    def _changed(self, wanted: ConfigureFlux) -> Thresholds:
        for name, value in (("keyterms", wanted.keyterms), ("numerals", wanted.numerals)):
            if value:
                raise UnsupportedValue(
                    f"{name} cannot change within a session; open another connection", name
                )
        # Thresholds and the message have the same field names.
        changes = msgspec.to_builtins(wanted.thresholds) if wanted.thresholds else {}
        return read(Thresholds, msgspec.to_builtins(self._thresholds) | changes).checked()
