"""`WS /v3/ws`: AssemblyAI's streaming protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import JSONResponse, Response

from auricle.checkpoints.languages import language_code
from auricle.core.errors import (
    CLOSE_INTERNAL,
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    UnsupportedValue,
)
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.assemblyai.options import StreamingOptions, parse_options
from auricle.frontend.session.adapter import Reply, decoded, encode
from auricle.frontend.session.live_session import ClientCommand, ProtocolSession, Summary
from auricle.frontend.session.turns import Cause, Turn, TurnEvent, Turns, TurnSegment
from auricle.frontend.transport.request_errors import error_headers
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol

# The words of a turn, as AssemblyAI's clients expect them. No I/O.

_WORD = re.compile(r"\S+")


def words_of(turn: Turn) -> list[Reply]:
    """Return the words of a turn. Times are in ms of the session's audio."""
    return [word for one in turn.spoken for word in (_words(one) if one.words else _shares(one))]


def _words(spoken: TurnSegment) -> Iterator[Reply]:
    """Yield the words of a segment. Clients need a confidence: it is 0 where that is not known."""
    joined = "".join(word.text for word in spoken.words)
    at = len(joined.lstrip()) - len(joined)  # the segment's text begins at 0
    for word in spoken.words:
        end = at + len(word.text.rstrip())
        yield _told(
            *(word.start_ms, word.end_ms, word.text.strip(), word.confidence or 0.0),
            is_final=spoken.is_final or end < spoken.settled,
        )
        at += len(word.text)


def _shares(spoken: TurnSegment) -> Iterator[Reply]:
    """Yield the words of a segment, whose time they share by their characters.

    Nothing else is known of text that another processor had heard.
    """
    begin, per_character = spoken.begin * 1000, 0.0
    if spoken.text:
        per_character = (spoken.end - spoken.begin) * 1000 / len(spoken.text)
    for found in _WORD.finditer(spoken.text):
        yield _told(
            round(begin + found.start() * per_character),
            round(begin + found.end() * per_character),
            found[0],
            0.0,
            # The last settled word may go on: what follows it may not begin with a space.
            is_final=spoken.is_final or found.end() < spoken.settled,
        )


def _told(start: int, end: int, text: str, confidence: float, *, is_final: bool) -> Reply:
    return {
        "start": start,
        "end": end,
        "text": text,
        "confidence": confidence,
        "word_is_final": is_final,
    }


# The messages of AssemblyAI's streaming protocol, and their JSON. No I/O.
#
# Names and fields are AssemblyAI's. Times are in milliseconds from the start of the session.

# Of AssemblyAI's codes, which are close codes too: what it calls a server error, an error of input
# validation, and a session that was idle for too long.
_FAILED, _INVALID, _IDLE = 3005, 3006, 4031
_NEVER = 4_102_444_800  # sessions do not expire; clients need a time, which is in the year 2100


class AssemblyKeepAlive(msgspec.Struct, frozen=True, tag="KeepAlive"):
    """The client stays, and has no audio now."""


class ForceEndpoint(msgspec.Struct, frozen=True, tag="ForceEndpoint"):
    """The turn is over, says the client."""


class Terminate(msgspec.Struct, frozen=True, tag="Terminate"):
    """The audio has ended."""


class UpdateConfiguration(msgspec.Struct, frozen=True, tag="UpdateConfiguration"):
    """Change options of the session: see `parse_changes`."""


ClientMessage = AssemblyKeepAlive | ForceEndpoint | Terminate | UpdateConfiguration
_NAMES = "UpdateConfiguration, ForceEndpoint, KeepAlive, Terminate"
_JSON: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)
_FIELDS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def parse_message(text: str) -> ClientMessage:
    """Parse a client's text message. Raises ProtocolError, naming the supported ones."""
    return decoded(text, _JSON, _NAMES)


def parse_changes(text: str) -> dict[str, Any]:
    """Return the options that an UpdateConfiguration names. Raises ProtocolError."""
    fields = decoded(text, _FIELDS, _NAMES)
    return {name: value for name, value in fields.items() if name != "type"}


class AssemblyReplies:
    """Makes the messages of one session, in the order in which they are sent."""

    def __init__(self, session: str, model: str, options: StreamingOptions) -> None:
        """`model` is the served one's name. `options` may change at any time."""
        self._session = session
        self._model = model
        self._uttered = 0  # segments of the turn whose final text was told
        self._warnings = list(options.warnings)
        self._warned = set(options.warnings)
        self.options = options

    def warn(self, warnings: tuple[str, ...]) -> None:
        """Say of options that they have no effect, in the next message, unless it was said."""
        self._warnings += [text for text in warnings if text not in self._warned]
        self._warned.update(warnings)

    def begin(self) -> Reply:
        """Return a session's first message. `warnings`, as of turns, are an extension."""
        return {
            "type": "Begin",
            "id": self._session,
            "expires_at": _NEVER,
            "configuration": {"model": self._model},
            **self._said(),
        }

    def turn(
        self, event: TurnEvent, turn: Turn, confidence: float = 0.0, cause: Cause | None = None
    ) -> list[Reply]:
        """Return what became of a turn; `confidence` is that it is over."""
        told: list[Reply] = []
        if event == "started":
            told.append({"type": "SpeechStarted", "timestamp": round(turn.begin * 1000)})
        ended = event == "ended"
        if ended or self.options.partials:
            told.append(self._turn(turn, confidence, ended=ended))
        return told

    def not_changed(self, error: AuricleError) -> Reply:
        """Return the answer to an UpdateConfiguration that changed nothing."""
        return {"type": "Warning", "warning_code": _INVALID, "warning": error.for_client}

    def termination(self, heard: Summary, session_seconds: float) -> Reply:
        """Return the last message of a session that was not cut short."""
        return {
            "type": "Termination",
            "audio_duration_seconds": round(heard.seconds),
            "session_duration_seconds": round(session_seconds),
        }

    def _turn(self, turn: Turn, confidence: float, *, ended: bool) -> Reply:
        utterance = self._utterance(turn, ended=ended)
        told: Reply = {
            "type": "Turn",
            "turn_order": turn.index,
            "turn_is_formatted": ended and self.options.turns.format_turns is not False,
            "end_of_turn": ended,
            "transcript": turn.text,
            "utterance": utterance,
            "end_of_turn_confidence": confidence,
            "words": words_of(turn),
            **self._word_times(turn),
            **self._said(),
        }
        if self.options.tells_language and turn.spoken and (ended or utterance):
            code = language_code(turn.spoken[-1].language)
            told |= {} if code is None else {"language_code": code}
        return told

    def _utterance(self, turn: Turn, *, ended: bool) -> str:
        """Return the final text of the segments of which that was not told yet."""
        finals = [one.text for one in turn.spoken if one.is_final]
        new = finals[self._uttered :]
        self._uttered = 0 if ended else len(finals)
        return " ".join(new)

    def _word_times(self, turn: Turn) -> Reply:
        """Return what the times of words are, an extension, for who asked for the aligner's."""
        if self.options.words == "grid":
            return {}
        aligned = all(one.aligned for one in turn.spoken)
        return {"word_times": "aligned" if aligned else "grid"}

    def _said(self) -> Reply:
        told, self._warnings = self._warnings, []
        return {"warnings": told} if told else {}


def close_code(error: AuricleError) -> int:
    """Return the close code of a session that failed, where AssemblyAI has one of its own."""
    if isinstance(error, BadRequest):
        return _INVALID
    if isinstance(error, DeadlineExceeded):
        return _IDLE
    return _FAILED if error.close_code == CLOSE_INTERNAL else error.close_code


def error_message(error: AuricleError) -> Reply:
    """Return the last message of a session that failed."""
    return {"type": "Error", "error_code": close_code(error), "error": error.for_client}


def denial(error: AuricleError) -> Response:
    """Return the response to a handshake that is refused."""
    body = {"error": error.for_client, "code": error.code}
    return JSONResponse(body, error.http_status, error_headers(error))


def assemblyai_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v3/ws`, for the frontend's event loop."""
    streaming = StreamingProtocol(frontend)
    return SocketProtocol(
        *("assemblyai", streaming.serve, streaming.error),
        check=streaming.check,
        denial=denial,
        close_code=close_code,
    )


class StreamingProtocol:
    """Serves the sessions of `/v3/ws`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    def check(self, query: str) -> None:
        """Raise BadRequest, before the handshake, if the query's options cannot be served."""
        options = self._options(query)
        self._frontend.check_model(options.model)
        self._frontend.check_words(options.words == "aligned", "word_times")

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        options = self._options(socket.query_string)
        replies = AssemblyReplies(socket.session, self._frontend.model, options)
        idle = options.idle_seconds or self._frontend.settings.idle_timeout_seconds
        dialect = _Streaming(options, replies, idle)
        await ProtocolSession(self._frontend, socket, options, dialect).run()

    @staticmethod
    def error(error: AuricleError) -> str:
        """Return the last message of a session that failed."""
        return encode(error_message(error))

    def _options(self, query: str) -> StreamingOptions:
        frontend = self._frontend
        silence_ms = frontend.settings.min_silence_ms
        return parse_options(query, silence_ms, judged=frontend.turns is not None)


class _Streaming:
    """The `Dialect` of one session."""

    def __init__(
        self, options: StreamingOptions, replies: AssemblyReplies, idle_seconds: float
    ) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = replies
        self._turns = Turns(options.policy, replies)

    def idle(self) -> DeadlineExceeded:
        """Return the error of a client that sent nothing for longer."""
        return DeadlineExceeded(
            f"neither audio nor a KeepAlive message came within {self.idle_seconds:g} s"
        )

    def talk(self, channel: int) -> Turns:
        """Return what tells the client of turns; there is one channel."""
        return self._turns

    def first(self) -> list[Reply]:
        """Return what the client is told before it sends anything."""
        return [self._replies.begin()]

    def asked(self, text: str) -> ClientCommand:
        """Return what a text message asks for. Raises ProtocolError if it is none."""
        match parse_message(text):
            case ForceEndpoint():
                return ClientCommand(finalize=True)
            case Terminate():
                return ClientCommand(ends=True)
            case UpdateConfiguration():
                return self._updated(text)
            case _:
                return ClientCommand()

    def last(self, heard: Summary) -> list[Reply]:
        """Return the end of the turn that is open, and of the session.

        Clients take a session whose server leaves for finished if they are told of its end; the
        close code says that it is not.
        """
        ended = self._turns.closed()
        if heard.left:
            return ended
        seconds = (datetime.now(UTC) - heard.created).total_seconds()
        return [*ended, self._replies.termination(heard, seconds)]

    def _updated(self, text: str) -> ClientCommand:
        try:
            options = self._options.updated(parse_changes(text))
        except UnsupportedValue as error:
            refused = self._replies.not_changed(error)
            return ClientCommand(lambda: [refused])
        before, self._options = self._options, options
        self._turns.policy, self._replies.options = options.policy, options
        self._replies.warn(options.warnings)
        # An update that is not about silences does not touch the listening.
        changed = options.silence != before.silence
        return ClientCommand(silence=options.silence if changed else None)
