"""The messages of `WS /v2/listen`, and their JSON. No I/O.

Names and fields are Deepgram's. Times are in seconds from the start of the session.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec

from auricle.errors import AuricleError
from auricle.frontend.deepgram.flux_options import Thresholds
from auricle.frontend.deepgram.messages import CloseStream, KeepAlive
from auricle.frontend.dialects.messages import Reply, decoded
from auricle.frontend.dialects.turns import Cause, Turn, TurnEvent


class ForceEndTurn(msgspec.Struct, frozen=True, tag="ForceEndTurn"):
    """The turn is over, says the client."""


class GivenThresholds(msgspec.Struct, frozen=True, omit_defaults=True):
    """Those that change."""

    eot_threshold: float | None = None
    eager_eot_threshold: float | None = None
    eot_timeout_ms: int | None = None


class Configure(msgspec.Struct, frozen=True, tag="Configure"):
    """Change options of the session. Only the thresholds can be changed here."""

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
ClientMessage = KeepAlive | ForceEndTurn | CloseStream | Configure
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
        """Return a session's first message."""
        return {"type": "Connected", "request_id": self._request, "sequence_id": self.number()}

    def warning(self, description: str) -> Reply:
        """Return what is said of an option without effect."""
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
        """Return what became of a turn; `confidence` is that it is over."""
        told: Reply = {
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
        return [told if cause is None else told | {"trigger": _TRIGGERS[cause]}]

    def configured(self, thresholds: Thresholds, keyterms: str) -> Reply:
        """Return the answer to Configure, with all that is in effect."""
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
        """Return the answer to Configure if nothing was changed."""
        return {
            "type": "ConfigureFailure",
            "request_id": self._request,
            "sequence_id": self.number(),
            "code": error.code,
            "description": error.for_client,
        }

    def number(self) -> int:
        """Return the number of the next message."""
        return next(self._numbers)


def _words(turn: Turn) -> list[Reply]:
    """Return the words of a turn. Clients drop one without any.

    They need a confidence: it is 0 where that is not known.
    """
    found: list[Reply] = []
    for one in turn.spoken:
        known = [(word.text.strip(), word.confidence or 0.0) for word in one.words]
        for word, confidence in known or [(word, 0.0) for word in one.text.split()]:
            found.append({"word": word, "confidence": confidence})
    return found


def fatal(error: AuricleError, number: int) -> Reply:
    """Return the last message of a session that failed."""
    return {
        "type": "Error",
        "sequence_id": number,
        "code": error.code,
        "description": error.for_client,
    }
