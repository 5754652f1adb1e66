"""`WS /v3/ws`: AssemblyAI's streaming protocol."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from auricle.checkpoints.languages import language_code
from auricle.core.errors import (
    CLOSE_INTERNAL,
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    UnsupportedValue,
)
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import speaker_letter
from auricle.frontend.protocols.assemblyai.options import StreamingOptions, parse_options
from auricle.frontend.session.adapter import Reply, decoded, encode
from auricle.frontend.session.turns import Cause, Turn, TurnEvent, Turns, TurnSegment
from auricle.frontend.session.websocket_session import ClientCommand, Summary, WebSocketSession
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol

_WORD = re.compile(r"\S+")


def words_of(turn: Turn) -> list[Reply]:
    """Return the words of a turn. Times are in ms of the session's audio."""
    return [word for one in turn.spoken for word in (_words(one) if one.words else _shares(one))]


def _words(spoken: TurnSegment) -> Iterator[Reply]:
    """Yield the words of a segment. Clients need a confidence: it is 0 if it is not known."""
    joined = "".join(word.text for word in spoken.words)
    at = len(joined.lstrip()) - len(joined)  # the segment's text begins at 0
    speakers = spoken.speakers or [None] * len(spoken.words)
    for word, speaker in zip(spoken.words, speakers, strict=True):
        end = at + len(word.text.rstrip())
        yield _word(
            *(word.start_ms, word.end_ms, word.text.strip(), word.confidence or 0.0),
            is_final=spoken.is_final or end < spoken.committed_chars,
            speaker=speaker,
        )
        at += len(word.text)


def _shares(spoken: TurnSegment) -> Iterator[Reply]:
    """Yield the words of a segment without times: they share its time by their characters.

    Text from before the session moved to another processor has no times.
    """
    begin, per_character = spoken.begin * 1000, 0.0
    if spoken.text:
        per_character = (spoken.end - spoken.begin) * 1000 / len(spoken.text)
    for found in _WORD.finditer(spoken.text):
        yield _word(
            round(begin + found.start() * per_character),
            round(begin + found.end() * per_character),
            found[0],
            0.0,
            # The last committed word may continue: the text after it may not begin with a space.
            is_final=spoken.is_final or found.end() < spoken.committed_chars,
        )


def _word(
    start: int,
    end: int,
    text: str,
    confidence: float,
    *,
    is_final: bool,
    speaker: int | None = None,
) -> Reply:
    word: Reply = {
        "start": start,
        "end": end,
        "text": text,
        "confidence": confidence,
        "word_is_final": is_final,
    }
    return word if speaker is None else word | {"speaker": speaker_letter(speaker)}


def dominant_speaker(turn: Turn) -> int | None:
    """Return the speaker of most of the turn's words, by time; None if no speaker is known."""
    spoken: Counter[int] = Counter()
    for one in turn.spoken:
        for word, speaker in zip(one.words, one.speakers, strict=False):
            if speaker is not None:
                spoken[speaker] += max(1, word.end_ms - word.start_ms)
    return max(spoken, key=lambda speaker: spoken[speaker], default=None)


# The messages of AssemblyAI's streaming protocol, and their JSON. No I/O.
#
# Names and fields are AssemblyAI's. Times are in milliseconds from the start of the session.

# AssemblyAI's codes, which are also close codes, for a server error, an invalid input, and a
# session that was idle for too long.
_FAILED, _INVALID, _IDLE = 3005, 3006, 4031
_NEVER = 4_102_444_800  # sessions do not expire; clients need a time, which is in the year 2100


class AssemblyKeepAlive(msgspec.Struct, frozen=True, tag="KeepAlive"):
    """Keeps the connection open while no audio is sent."""


class ForceEndpoint(msgspec.Struct, frozen=True, tag="ForceEndpoint"):
    """Ends the turn."""


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
        self._uttered = 0  # segments of the turn whose final text was sent
        self._warnings = list(options.warnings)
        self._warned = set(options.warnings)
        self.options = options

    def warn(self, warnings: tuple[str, ...]) -> None:
        """Add warnings to the next message, each once in a session."""
        self._warnings += [text for text in warnings if text not in self._warned]
        self._warned.update(warnings)

    def begin(self) -> Reply:
        return {
            "type": "Begin",
            "id": self._session,
            "expires_at": _NEVER,
            "configuration": {"model": self._model},
            **self._new_warnings(),
        }

    def turn(
        self, event: TurnEvent, turn: Turn, confidence: float = 0.0, cause: Cause | None = None
    ) -> list[Reply]:
        """Return the messages about a turn; `confidence` is the end-of-turn confidence."""
        replies: list[Reply] = []
        if event == "started":
            replies.append({"type": "SpeechStarted", "timestamp": round(turn.begin * 1000)})
        ended = event == "ended"
        if ended or self.options.partials:
            replies.append(self._turn(turn, confidence, ended=ended))
        return replies

    def not_changed(self, error: AuricleError) -> Reply:
        """Return the answer to an UpdateConfiguration that changed nothing."""
        return {"type": "Warning", "warning_code": _INVALID, "warning": error.for_client}

    def termination(self, summary: Summary, session_seconds: float) -> Reply:
        """Return the last message of a session that was not cut short."""
        return {
            "type": "Termination",
            "audio_duration_seconds": round(summary.seconds),
            "session_duration_seconds": round(session_seconds),
        }

    def _turn(self, turn: Turn, confidence: float, *, ended: bool) -> Reply:
        utterance = self._utterance(turn, ended=ended)
        self.warn(_missing_speakers(turn))
        reply: Reply = {
            "type": "Turn",
            "turn_order": turn.index,
            "turn_is_formatted": ended and self.options.turns.format_turns is not False,
            "end_of_turn": ended,
            "transcript": turn.text,
            "utterance": utterance,
            "end_of_turn_confidence": confidence,
            "words": words_of(turn),
            **self._word_times(turn),
            **self._speaker(turn),
            **self._new_warnings(),
        }
        if self.options.tells_language and turn.spoken and (ended or utterance):
            code = language_code(turn.spoken[-1].language)
            reply |= {} if code is None else {"language_code": code}
        return reply

    def _utterance(self, turn: Turn, *, ended: bool) -> str:
        finals = [one.text for one in turn.spoken if one.is_final]
        new = finals[self._uttered :]
        self._uttered = 0 if ended else len(finals)
        return " ".join(new)

    def _word_times(self, turn: Turn) -> Reply:
        """Return the source of words' times, an extension, if the aligner's were requested."""
        if self.options.words == "grid":
            return {}
        aligned = all(one.aligned for one in turn.spoken)
        return {"word_times": "aligned" if aligned else "grid"}

    def _speaker(self, turn: Turn) -> Reply:
        if not self.options.diarize:
            return {}
        speaker = dominant_speaker(turn)
        return {"speaker_label": None if speaker is None else speaker_letter(speaker)}

    def _new_warnings(self) -> Reply:
        warnings, self._warnings = self._warnings, []
        return {"warnings": warnings} if warnings else {}


def _missing_speakers(turn: Turn) -> tuple[str, ...]:
    reasons = dict.fromkeys(one.speakers_missing for one in turn.spoken if one.speakers_missing)
    return tuple(f"speakers are missing: {why}" for why in reasons)


def close_code(error: AuricleError) -> int:
    """Return the close code of a session that failed, where AssemblyAI has one of its own."""
    if isinstance(error, BadRequest):
        return _INVALID
    if isinstance(error, DeadlineExceeded):
        return _IDLE
    return _FAILED if error.close_code == CLOSE_INTERNAL else error.close_code


def error_message(error: AuricleError) -> Reply:
    return {"type": "Error", "error_code": close_code(error), "error": error.for_client}


def assemblyai_protocol(frontend: Frontend) -> SocketProtocol:
    def options_of(query: str) -> StreamingOptions:
        silence_ms = frontend.settings.min_silence_ms
        return parse_options(query, silence_ms, judged=frontend.turns is not None)

    def check(query: str) -> None:
        options = options_of(query)
        frontend.check_options(options.model, options.words)
        frontend.check_language(options.language, options.languages, "language_code")
        frontend.check_offered_speakers(options.diarize)

    async def serve(socket: ClientSocket) -> None:
        options = options_of(socket.query_string)
        options = options.with_warnings(frontend.check_model(options.model))
        if frontend.settings.speaker_model is None:
            options = options.without_speakers("speaker_labels")
        replies = AssemblyReplies(socket.session, frontend.model, options)
        idle = options.idle_seconds or frontend.settings.idle_timeout_seconds
        adapter = _Streaming(options, replies, idle)
        await WebSocketSession(frontend, socket, options, adapter).run()

    return SocketProtocol(
        "assemblyai",
        serve,
        lambda error: encode(error_message(error)),
        check=check,
        refuses_in_band=True,
        close_code=close_code,
    )


class _Streaming:
    empty_ends = False

    def __init__(
        self, options: StreamingOptions, replies: AssemblyReplies, idle_seconds: float
    ) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = replies
        self._turns = Turns(options.policy, replies)

    def idle_error(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"neither audio nor a KeepAlive message came within {self.idle_seconds:g} s"
        )

    def serializer(self, channel: int) -> Turns:
        return self._turns

    def first_messages(self) -> list[Reply]:
        return [self._replies.begin()]

    def command(self, text: str) -> ClientCommand:
        """Parse a text message. Raises ProtocolError if it is invalid."""
        match parse_message(text):
            case ForceEndpoint():
                return ClientCommand(finalize=True)
            case Terminate():
                return ClientCommand(ends=True)
            case UpdateConfiguration():
                return self._updated(text)
            case _:
                return ClientCommand()

    def last_messages(self, summary: Summary) -> list[Reply]:
        """Return the end of the open turn, and of the session.

        Without Termination if the server drains, or an error follows: clients would take the
        session for finished.
        """
        ended = self._turns.closed()
        if summary.left or summary.failed:
            return ended
        seconds = (datetime.now(UTC) - summary.created).total_seconds()
        return [*ended, self._replies.termination(summary, seconds)]

    def _updated(self, text: str) -> ClientCommand:
        try:
            options = self._options.updated(parse_changes(text))
        except UnsupportedValue as error:
            refused = self._replies.not_changed(error)
            return ClientCommand(lambda: [refused])
        before, self._options = self._options, options
        self._turns.policy, self._replies.options = options.policy, options
        self._replies.warn(options.warnings)
        # An update without silences does not change endpointing.
        changed = options.silence != before.silence
        return ClientCommand(silence=options.silence if changed else None)
