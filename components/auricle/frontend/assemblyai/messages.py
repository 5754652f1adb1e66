"""The messages of AssemblyAI's streaming protocol, and their JSON. No I/O.

Names and fields are AssemblyAI's. Times are in milliseconds from the start of the session.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import JSONResponse, Response

from auricle.checkpoint.languages import language_code
from auricle.errors import CLOSE_INTERNAL, AuricleError, BadRequest, DeadlineExceeded
from auricle.frontend.assemblyai.options import StreamingOptions
from auricle.frontend.assemblyai.words import words_of
from auricle.frontend.dialects.messages import Reply, decoded
from auricle.frontend.dialects.session import Summary
from auricle.frontend.dialects.turns import Cause, Turn, TurnEvent
from auricle.frontend.doors.http_errors import error_headers

# Of AssemblyAI's codes, which are close codes too: what it calls a server error, an error of input
# validation, and a session that was idle for too long.
_FAILED, _INVALID, _IDLE = 3005, 3006, 4031
_NEVER = 4_102_444_800  # sessions do not expire; clients need a time, which is in the year 2100


class KeepAlive(msgspec.Struct, frozen=True, tag="KeepAlive"):
    """The client stays, and has no audio now."""


class ForceEndpoint(msgspec.Struct, frozen=True, tag="ForceEndpoint"):
    """The turn is over, says the client."""


class Terminate(msgspec.Struct, frozen=True, tag="Terminate"):
    """The audio has ended."""


class UpdateConfiguration(msgspec.Struct, frozen=True, tag="UpdateConfiguration"):
    """Change options of the session: see `parse_changes`."""


ClientMessage = KeepAlive | ForceEndpoint | Terminate | UpdateConfiguration
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


class Replies:
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
