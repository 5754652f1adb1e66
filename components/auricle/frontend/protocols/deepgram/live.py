"""`WS /v1/listen`: Deepgram's live protocol."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.segmentation import SHORTEST_SEGMENT
from auricle.audio.voice_activity import VAD_FRAME
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, SpeechEnd, SpeechOnset
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import speakers_of
from auricle.frontend.protocols.deepgram import messages
from auricle.frontend.protocols.deepgram.messages import (
    CloseStream,
    Configure,
    DeepgramReplies,
    Finalize,
    NoAudio,
)
from auricle.frontend.protocols.deepgram.options import ListenOptions, parse_options
from auricle.frontend.session.adapter import Reply, encode
from auricle.frontend.session.websocket_session import ClientCommand, Summary, WebSocketSession
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from auricle.protocol.stream import Word

# The messages about speech, and their order. No I/O, no clock.
#
# Endpointing finds where speech ends before its text is known. Such a place is kept as a mark until
# the text up to it was sent, so that `speech_final`, `UtteranceEnd` and the answer to `Finalize`
# follow the text that they refer to.

# Samples between the start of speech and its detection.
_ONSET = 4 * VAD_FRAME


@dataclass(frozen=True)
class _Mark:
    """An event that is due once the speech of session samples [begin, at) has its text."""

    kind: Literal["endpoint", "finalize", "gap"]
    begin: int
    at: int


class Utterances:
    """Turns the speech and text of one session into messages. Calls must not overlap.

    Positions are session samples (16 kHz).
    """

    def __init__(self, options: ListenOptions, replies: DeepgramReplies) -> None:
        self._options = options
        self._replies = replies
        gap_ms = options.utterance_end_ms
        self._gap = None if gap_ms is None else gap_ms * SAMPLE_RATE // 1000
        self._marks: deque[_Mark] = deque()
        self._begin: int | None = None  # of the speech that has not ended
        self._text_until = 0  # all speech before this sample has its text
        self._quiet_since: int | None = None  # where speech ended, until the silence is a gap
        self._words = False  # text was sent since the last UtteranceEnd
        self.unknown_speakers: Counter[str] = Counter()  # results without speakers, by reason

    def on_endpointing(self, events: Sequence[AudioEvent], until: int) -> list[Reply]:
        """Endpointing has found `events` up to sample `until`, which counts silence without audio.

        Call this before the processor gets the pieces: their text may come at once.
        """
        replies: list[Reply] = []
        for event in events:
            if isinstance(event, SpeechOnset):
                self._gap_until(event.at)
                self._quiet_since = None
                if self._options.vad_events:
                    replies.append(self._replies.speech_started(event.at))
            elif isinstance(event, SpeechEnd):
                self._quiet_since = event.at
            elif isinstance(event, AudioChunk):
                self._passed(event)
        self._gap_until(until - _ONSET)
        return replies + self._due_messages()

    @property
    def silence_until(self) -> int | None:
        """The sample up to which silence must last for UtteranceEnd; None if that is not due."""
        if self._quiet_since is None or self._gap is None:
            return None
        return self._quiet_since + self._gap + _ONSET

    def on_finalized(self, at: int) -> list[Reply]:
        """The client wants the text of all audio up to `at`, where its speech was ended."""
        self._marks.append(_Mark("finalize", at, at))
        return self._due_messages()

    def on_partial(self, event: SegmentPartial) -> list[Reply]:
        if not self._options.partials:
            return []
        text = event.committed + event.partial
        start = event.resume.segment_start / SAMPLE_RATE
        end = event.audio_ms / 1000
        return [self._replies.results(text, start, end, event.words, is_final=False)]

    def on_final(self, event: SegmentFinal) -> list[Reply]:
        self._text_until = event.resume.segment_start
        self._words = self._words or bool(event.text)
        return self._due_messages(event)

    def _passed(self, piece: AudioChunk) -> None:
        if self._begin is None:
            self._begin = piece.start
        if piece.boundary == "endpoint":
            self._marks.append(_Mark("endpoint", self._begin, piece.end))
            self._begin = None

    def _gap_until(self, at: int) -> None:
        """Mark the silence between the last end of speech and `at`, if it is a gap."""
        since = self._quiet_since
        if since is not None and self._gap is not None and at - since >= self._gap:
            self._marks.append(_Mark("gap", since, since))
            self._quiet_since = None

    def _due_messages(self, final: SegmentFinal | None = None) -> list[Reply]:
        """Return the messages for the final, and for the marks that are due."""
        marks = self._due()
        kinds = {mark.kind for mark in marks}
        ended = "endpoint" in kinds and self._options.speech_final
        finalized = "finalize" in kinds
        replies: list[Reply] = []
        if final is not None or ended or finalized:
            # Without a final the text was sent before, and this result is empty.
            at = max((mark.at for mark in marks), default=0) / SAMPLE_RATE
            span = ("", at, at)
            words: Sequence[Word] = ()
            speakers: Sequence[int | None] = ()
            times: Reply = {}
            if final is not None:
                span = (final.text, final.start_ms / 1000, final.end_ms / 1000)
                words = final.words
                speakers = self._speakers(final)
                times = self._word_times(final)
            result = self._replies.results(
                *(*span, words, speakers),
                is_final=True,
                speech_final=ended,
                from_finalize=finalized,
            )
            replies.append(result | times)
        for mark in marks:
            if mark.kind == "gap" and self._words:
                replies.append(self._replies.utterance_end(mark.at))
                self._words = False
        return replies

    def _word_times(self, final: SegmentFinal) -> Reply:
        """Return the source of words' times, an extension, if the aligner's were requested."""
        if self._options.words == "grid":
            return {}
        return {"word_times": "aligned" if final.word_source == "aligned" else "grid"}

    def _speakers(self, final: SegmentFinal) -> Sequence[int | None]:
        """Return the speakers of the words, and count the result if they are missing."""
        if final.speakers is not None and final.speakers.missing:
            self.unknown_speakers[final.speakers.missing] += 1
        return speakers_of(final)

    def _due(self) -> list[_Mark]:
        due = []
        while self._marks:
            mark = self._marks[0]
            # A processor makes no segment, and so no final, of less.
            if mark.at - max(mark.begin, self._text_until) >= SHORTEST_SEGMENT:
                break
            due.append(self._marks.popleft())
        return due


# A browser's client offers one of these, and then its key, as subprotocols.
SUBPROTOCOLS = ("token", "bearer")


def listen_protocol(frontend: Frontend) -> SocketProtocol:
    def options_of(query: str) -> ListenOptions:
        return parse_options(query, frontend.settings.max_channels)

    def check(query: str) -> None:
        options = options_of(query)
        frontend.check_options(options.model, options.words)
        frontend.check_language(options.language)
        frontend.check_offered_speakers(options.diarize)

    async def serve(socket: ClientSocket) -> None:
        options = options_of(socket.query_string)
        options = options.with_warnings(frontend.check_model(options.model))
        if frontend.settings.speaker_model is None:
            options = options.without_speakers("diarize")
        idle = frontend.settings.listen_idle_seconds
        adapter = _Live(options, socket.session, frontend.model, idle)
        await WebSocketSession(frontend, socket, options, adapter).run()

    return SocketProtocol(
        "listen",
        serve,
        lambda error: encode(messages.error_message(error)),
        SUBPROTOCOLS,
        check=check,
        refuses_in_band=True,
        sessions=lambda query: options_of(query).channels,
    )


class _Live:
    empty_ends = True  # as before Deepgram had CloseStream

    def __init__(
        self, options: ListenOptions, request: str, model: str, idle_seconds: float
    ) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = DeepgramReplies(request, model, channels=options.channels)
        self._channels: list[Utterances] = []

    def idle_error(self) -> NoAudio:
        return NoAudio(self.idle_seconds)

    def serializer(self, channel: int) -> Utterances:
        self._channels.append(Utterances(self._options, self._replies.of(channel)))
        return self._channels[-1]

    def first_messages(self) -> list[Reply]:
        return []

    def command(self, text: str) -> ClientCommand:
        """Parse a text message; an invalid one is answered with an error."""
        try:
            message = messages.parse_message(text)
        except ProtocolError as error:
            answer = messages.schema_error(error, text)
            return ClientCommand(lambda: [answer])
        match message:
            case Finalize():
                return ClientCommand(finalize=True)
            case Configure():
                return ClientCommand(lambda: [self._replies.configure_failure()])
            case CloseStream():
                return ClientCommand(ends=True)
            case _:
                return ClientCommand()

    def last_messages(self, summary: Summary) -> list[Reply]:
        if summary.failed:
            return []
        unknown = sum((one.unknown_speakers for one in self._channels), Counter[str]())
        warnings = (
            *self._options.warnings,
            *(f"{count} results have no speakers: {why}" for why, count in unknown.items()),
        )
        return [self._replies.metadata(summary.seconds, summary.sha256, summary.created, warnings)]
