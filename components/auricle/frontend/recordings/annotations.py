"""Annotations of a part of a recording, which a processor may cut into several segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from auricle.annotation.translation.targets import CUT, SAME
from auricle.core.errors import DeadlineExceeded, Overloaded, WorkerUnavailable
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation
from auricle.protocol.sessions import SegmentFinal, SegmentWords
from auricle.protocol.stream import SpeakerPart, Word

_GRID = "commit_grid"


@dataclass(frozen=True)
class PartWords:
    """All words of a part, or none: their `text`, joined, is the part's text.

    `missing` is the reason why times are not the aligner's, empty if they are; with `words` the
    times are from decodes.
    """

    words: tuple[Word, ...] = ()
    missing: str = ""


NO_WORDS = PartWords()


def words_of(segments: Sequence[SegmentWords]) -> PartWords:
    """Join the words of the segments with text of a part, in order; text is joined by spaces."""
    missing = next((one.missing for one in segments if one.source is None), "")
    if missing:
        return PartWords(missing=missing)
    words: list[Word] = []
    for one in segments:
        if words and one.words:
            words[-1] = replace(words[-1], text=f"{words[-1].text} ")
        words += one.words
    coarse = next((one.missing for one in segments if one.source == _GRID), "")
    return PartWords(tuple(words), coarse)


def missing_words(parts: Iterable[PartWords]) -> list[str]:
    """Return warnings about the parts whose words have no times, or rough ones."""
    absent: Counter[str] = Counter()
    rough: Counter[str] = Counter()
    for part in parts:
        if part.missing:
            (rough if part.words else absent)[part.missing] += 1
    return [
        *(f"{count} segments have no times of words: {why}" for why, count in absent.items()),
        *(f"{count} segments have rough times of words: {why}" for why, count in rough.items()),
    ]


# A pool that does not answer costs each part its deadline, and parts follow one another.
_MOST_IN_VAIN = 3
_WAITED_FOR = (WorkerUnavailable.code, DeadlineExceeded.code, Overloaded.code)


@dataclass(frozen=True)
class PartSpeakers:
    """All turns of a part, or none: their `text`, joined, is the part's text.

    `missing` is the reason why there are none. `rough`: text of several speakers was divided by
    the times of decodes, and a part of a recording has only one.
    """

    turns: tuple[SpeakerPart, ...] = ()
    missing: str = ""
    rough: bool = False


NO_SPEAKERS = PartSpeakers()


@dataclass(frozen=True)
class Voices:
    """The state of a recording's voices after a part: see `ResumePoint.speakers`.

    The pool did not answer for the last `in_vain` parts, for the last one because of `missing`.
    """

    state: bytes = b""
    in_vain: int = 0
    missing: str = ""

    @property
    def given_up(self) -> bool:
        """Whether to stop calling the pool: the text of a recording must not wait for ever."""
        return self.in_vain >= _MOST_IN_VAIN

    def after(self, segments: Sequence[SegmentSpeakers]) -> Voices:
        """Return the state after another part, given its segments with text, in order."""
        if not segments:
            return self
        last = segments[-1]
        in_vain = self.in_vain + 1 if last.missing in _WAITED_FOR else 0
        return Voices(last.state, in_vain, last.missing)


def speakers_of(segments: Sequence[SegmentSpeakers]) -> PartSpeakers:
    """Join the speakers of the segments with text of a part, in order; text is joined by spaces."""
    missing = next((one.missing for one in segments if one.missing), "")
    if missing:
        return PartSpeakers(missing=missing)
    turns: list[SpeakerPart] = []
    for one in segments:
        with_text = [part for part in one.parts if part.text]
        if turns and with_text:
            turns[-1] = replace(turns[-1], text=f"{turns[-1].text} ")
        turns += with_text
    return PartSpeakers(tuple(turns), rough=any(_is_rough(one) for one in segments))


def _is_rough(segment: SegmentSpeakers) -> bool:
    several = len({part.speaker for part in segment.parts}) > 1
    return several and segment.source != "aligned"


def missing_speakers(parts: Iterable[PartSpeakers]) -> list[str]:
    """Return warnings about the parts without speakers, or divided by rough times of words."""
    known = list(parts)
    absent = Counter(part.missing for part in known if part.missing)
    rough = sum(part.rough for part in known)
    found = [f"{count} segments have no speakers: {why}" for why, count in absent.items()]
    if rough:
        found.append(f"{rough} segments are divided among speakers by rough times of words")
    return found


@dataclass(frozen=True)
class Translated:
    """`missing` is the reason why `text` is not the whole translation; empty if it is."""

    text: str = ""
    missing: str = ""


NO_TRANSLATION = Translated()


def cut_off(parts: Iterable[Translated]) -> list[str]:
    """Return a warning about the parts with an incomplete translation, if any."""
    count = sum(part.missing == CUT for part in parts)
    return [f"{count} segments are translated in part: {CUT}"] if count else []


def translated(
    finals: Sequence[SegmentFinal], translations: Mapping[int, SegmentTranslation]
) -> Translated:
    """Join the translations of segments; text in the target language is its own translation."""
    texts: list[str] = []
    missing = ""
    for final in finals:
        if (found := translations.get(final.segment)) is None:
            continue
        own = found.missing == SAME
        texts.append(final.text if own else found.committed)
        missing = missing or ("" if own else found.missing)
    return Translated(" ".join(text for text in texts if text), missing)
