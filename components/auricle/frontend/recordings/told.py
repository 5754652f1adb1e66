"""What a processor tells of a part of a recording, which it may cut into several segments."""

from __future__ import annotations

from auricle.errors import from_code
from auricle.frontend.line.token_scores import joined
from auricle.frontend.recordings.part_speakers import NO_SPEAKERS, PartSpeakers, Voices, speakers_of
from auricle.frontend.recordings.part_translation import Translated, translated
from auricle.frontend.recordings.part_words import NO_WORDS, PartWords, words_of
from auricle.messages.sessions import Failed, Final, ScoredToken, SessionEvent, Words
from auricle.messages.speakers import Speakers
from auricle.messages.stream import Word
from auricle.messages.translations import Translation


class Told:
    """Collects a part's events. What was not asked for is empty."""

    def __init__(self) -> None:
        self._finals: list[Final] = []  # those with text
        self._words: dict[int, Words] = {}
        self._speakers: dict[int, Speakers] = {}
        self._translations: dict[int, Translation] = {}

    def heard(self, event: SessionEvent) -> None:
        """Take the next event. Raises the error of a session that failed."""
        match event:
            case Final() if event.text:
                self._finals.append(event)
            case Words():
                self._words[event.segment] = event
            case Speakers():
                self._speakers[event.segment] = event
            case Translation() if event.final:
                self._translations[event.segment] = event
            case Failed():
                raise from_code(event.code, event.message)

    @property
    def text(self) -> str:
        """The text of all segments."""
        return " ".join(final.text for final in self._finals)

    @property
    def language(self) -> str:
        """The first segment's language; empty without text."""
        return self._finals[0].language if self._finals else ""

    @property
    def tokens(self) -> tuple[ScoredToken, ...]:
        """The tokens of the text."""
        return joined((final.text, final.tokens) for final in self._finals)

    @property
    def words(self) -> PartWords:
        """The aligner's words."""
        if not self._words:
            return NO_WORDS
        return words_of([self._words[final.segment] for final in self._finals])

    @property
    def grid_words(self) -> tuple[Word, ...]:
        """The words with the times of decodes."""
        return tuple(word for final in self._finals for word in final.words)

    @property
    def translation(self) -> Translated:
        """The text in another language."""
        return translated(self._finals, self._translations)

    @property
    def speakers(self) -> PartSpeakers:
        """Who spoke."""
        return speakers_of(self._by_segment) if self._speakers else NO_SPEAKERS

    def voices(self, before: Voices) -> Voices:
        """Return what is known of the voices, given what was known before the part."""
        return before.after(self._by_segment) if self._speakers else before

    @property
    def _by_segment(self) -> list[Speakers]:
        return [self._speakers[final.segment] for final in self._finals]
