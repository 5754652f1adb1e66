"""What a session's events have besides their text, where it was asked for. No I/O."""

from __future__ import annotations

from msgspec.structs import replace as replace_struct

from auricle.alignment.words import pieces
from auricle.confidence import of_words
from auricle.messages.sessions import Final, OpenSession, Partial, SessionEvent
from auricle.messages.stream import Word
from auricle.processor.actions import Decode
from auricle.processor.open_segment import OpenSegment
from auricle.processor.scores import Pieces, Scores, Tokens
from auricle.processor.word_times import commit_grid, heard_by


class Extras:
    """Adds tokens and words to the events of one session.

    An event is told before the next decode begins, so the last decode is always the one that it
    is of; or there was none, because another processor has committed all of the text.
    """

    def __init__(self, opened: OpenSession, prompt: Pieces, language: str | None) -> None:
        """`language` is the one forced by the prompt."""
        self._tokens, self._partials = opened.logprobs, opened.grid_words
        # Words that are aligned have their confidence from here.
        self._finals = opened.grid_words or opened.words
        self._scores = Scores(prompt, language)
        self._last: tuple[OpenSegment, int] | None = None  # and how many samples were decoded

    @property
    def scored(self) -> bool:
        """Whether decodes are to give log probabilities."""
        return self._tokens or self._finals

    def decoded(
        self,
        decode: Decode,
        segment: OpenSegment,
        committed: Tokens,
        tokens: Tokens,
        logprobs: tuple[float, ...],
    ) -> None:
        """A decode of `segment` has ended; `tokens` follow those `committed` before it."""
        if self.scored:
            self._scores.decoded(committed, tokens, logprobs[: len(tokens)])
            self._last = segment, decode.samples

    def on(self, event: SessionEvent) -> SessionEvent:
        """Return the event with what was asked for."""
        if not isinstance(event, Partial | Final) or self._last is None:
            return event
        segment, samples = self._last
        if segment.number != event.segment:
            return event
        if isinstance(event, Partial):
            if not self._partials:
                return event
            text = event.committed + event.partial
            return replace_struct(event, words=self._words(text, event.language, segment, samples))
        tokens = self._scores.tokens() if self._tokens else ()
        if not self._finals:
            return replace_struct(event, tokens=tokens, words=())
        words = self._words(event.text, event.language, segment, samples)
        return replace_struct(event, tokens=tokens, words=words)

    def _words(
        self, text: str, language: str, segment: OpenSegment, samples: int
    ) -> tuple[Word, ...]:
        split = pieces(text, language)
        if not split:
            return ()
        tokens = self._scores.pieces()
        scored = [(data, logprob) for _, data, logprob in tokens]
        heard = heard_by(((at, data) for at, data, _ in tokens), segment.stability.established)
        confidence = of_words([piece.text for piece in split], scored)
        return commit_grid(segment.start, samples, split, heard, confidence)
