"""Words in the answers for recordings: verbose JSON, and subtitles split at words."""

from __future__ import annotations

import pytest

from auricle.core.errors import UnsupportedValue
from auricle.frontend.protocols.transcriptions import formats
from auricle.frontend.protocols.transcriptions.form import TranscriptionForm, parse_form
from auricle.frontend.protocols.transcriptions.formats import Cue, TimedTranscript, lines
from auricle.frontend.recordings.annotations import NO_WORDS, PartWords, missing_words, words_of
from auricle.frontend.recordings.transcriber import RecordingSegment
from auricle.protocol.sessions import SegmentWords
from auricle.protocol.stream import Word

pytestmark = pytest.mark.unit
SECOND = 16_000


def spoken(text: str, start_ms: int = 0) -> tuple[Word, ...]:
    """Each word takes 400 ms and is followed by a pause of 100 ms."""
    pieces = [f"{word} " for word in text.split()]
    pieces[-1] = pieces[-1].strip()
    begins = range(start_ms, start_ms + 500 * len(pieces), 500)
    return tuple(
        Word(piece.strip(" ,."), piece, begin, begin + 400)
        for piece, begin in zip(pieces, begins, strict=True)
    )


TEXT = "ten green bottles, hanging on the wall."
WHOLE = Cue(0, 3500, TEXT)


def form(**fields: str) -> TranscriptionForm:
    return parse_form([("model", "demo"), *fields.items()])


def transcript(words: PartWords = PartWords(spoken(TEXT))) -> TimedTranscript:  # noqa: B008
    return TimedTranscript([RecordingSegment(TEXT, 0, 7 * SECOND // 2, "English", (), words)], 4.0)


def test_lines_are_of_whole_words_and_shown_while_they_are_said() -> None:
    assert list(lines(WHOLE, spoken(TEXT), 20)) == [
        Cue(0, 1400, "ten green bottles,"),
        Cue(1500, 3400, "hanging on the wall."),
    ]


@pytest.mark.parametrize("most", range(1, 60))
def test_no_word_is_lost_and_no_line_is_too_long(most: int) -> None:
    found = list(lines(WHOLE, spoken(TEXT), most))
    assert " ".join(cue.text for cue in found) == TEXT
    assert all(len(cue.text) <= most or " " not in cue.text for cue in found)
    assert all(cue.start_ms < cue.end_ms for cue in found)


def test_without_times_a_segment_stays_whole() -> None:
    (cue,) = lines(WHOLE, (), 20)
    assert (cue.start_ms, cue.end_ms) == (0, 3500)
    assert cue.text == "ten green bottles,\nhanging on the wall."


def test_subtitles_are_numbered_through() -> None:
    assert formats.as_srt(transcript(), 20) == (
        "1\n00:00:00,000 --> 00:00:01,400\nten green bottles,\n\n"
        "2\n00:00:01,500 --> 00:00:03,400\nhanging on the wall.\n"
    )
    assert formats.as_vtt(transcript(), 20).startswith(
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.400\nten green bottles,\n\n"
    )
    assert formats.as_srt(transcript()).count("-->") == 1


def test_words_have_no_punctuation_and_times_in_seconds() -> None:
    assert formats.words(transcript())[2] == {"word": "bottles", "start": 1.0, "end": 1.4}


def test_what_is_missing_or_rough_is_said() -> None:
    assert missing_words([NO_WORDS, PartWords(spoken(TEXT))]) == []
    absent, rough = PartWords(missing="unavailable"), PartWords(spoken(TEXT), "language")
    assert missing_words([absent, rough, absent]) == [
        "2 segments have no times of words: unavailable",
        "1 segments have rough times of words: language",
    ]


def test_the_segments_of_a_part_are_joined_as_their_text_is() -> None:
    one, two = SegmentWords(0, spoken("a b"), "aligned"), SegmentWords(1, spoken("c"), "aligned")
    found = words_of([one, two])
    assert "".join(word.text for word in found.words) == "a b c"
    assert found.missing == ""
    assert words_of([]) == NO_WORDS


def test_a_part_has_all_of_its_words_or_none() -> None:
    one = SegmentWords(0, spoken("a b"), "aligned")
    assert words_of([one, SegmentWords(1, (), None, "deadline")]) == PartWords((), "deadline")
    rough = words_of([one, SegmentWords(1, spoken("c"), "commit_grid", "language")])
    assert (len(rough.words), rough.missing) == (3, "language")


@pytest.mark.parametrize(
    ("fields", "wants", "warned"),
    [
        ({}, False, ""),
        ({"timestamp_granularities[]": "word", "response_format": "verbose_json"}, True, ""),
        ({"timestamp_granularities[]": "segment", "response_format": "verbose_json"}, False, ""),
        ({"timestamp_granularities[]": "word"}, False, "words come with verbose_json"),
        ({"max_line_characters": "42", "response_format": "srt"}, True, ""),
        (
            {"max_line_characters": "42", "response_format": "text"},
            False,
            "only srt and vtt have lines",
        ),
        (
            {"max_line_characters": "42", "response_format": "vtt", "stream": "true"},
            False,
            "only srt and vtt have lines",
        ),
    ],
)
def test_words_are_asked_for_where_the_answer_has_room(
    fields: dict[str, str], wants: bool, warned: str
) -> None:
    asked = form(**fields)
    assert asked.wants_words is wants
    assert any(warned in one for one in asked.warnings) if warned else not asked.warnings


@pytest.mark.parametrize("value", ["9", "501", "many"])
def test_lines_that_nobody_can_read_are_refused(value: str) -> None:
    with pytest.raises(UnsupportedValue, match="max_line_characters"):
        form(max_line_characters=value, response_format="srt")
