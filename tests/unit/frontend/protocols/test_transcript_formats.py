"""A transcript in every response format."""

import zlib

import pytest

from auricle.frontend.protocols.transcriptions.formats import (
    TimedTranscript,
    as_json,
    as_srt,
    as_verbose_json,
    as_vtt,
)
from auricle.frontend.recordings.transcriber import RecordingSegment
from auricle.protocol.sessions import ScoredToken

pytestmark = pytest.mark.unit
TRANSCRIPT = TimedTranscript(
    [
        RecordingSegment("good morning", 8_000, 40_000, "English"),
        RecordingSegment("salut", 16_000 * 3_600, 16_000 * 3_601 + 16, "French"),
        RecordingSegment("and welcome", 16_000 * 3_700, 16_000 * 3_702, "English"),
    ],
    3_702.5,
)
NOTHING = TimedTranscript([], 2.0)


def test_json_has_the_text_and_the_seconds() -> None:
    assert as_json(TRANSCRIPT) == {
        "text": "good morning salut and welcome",
        "usage": {"type": "duration", "seconds": 3702.5},
    }


def test_verbose_json_has_times_and_the_language_of_most_segments() -> None:
    verbose = as_verbose_json(TRANSCRIPT)
    assert (verbose["language"], verbose["duration"]) == ("english", 3702.5)
    first = verbose["segments"][0]  # type: ignore[index]
    assert (first["id"], first["start"], first["end"], first["text"]) == (
        0,
        0.5,
        2.5,
        "good morning",
    )


def test_verbose_json_has_what_is_known_of_a_segment() -> None:
    tokens = (ScoredToken(b"so", -0.5, 71), ScoredToken(b" so", -0.25, 72))
    text = "so " * 40
    segment = RecordingSegment(text, 16_000, 40_000, "English", tokens, speech=0.75)
    verbose = as_verbose_json(TimedTranscript([segment], 3.0))
    (told,) = verbose["segments"]  # type: ignore[misc]
    assert (told["seek"], told["tokens"], told["temperature"]) == (100, [71, 72], 0.0)
    assert (told["avg_logprob"], told["no_speech_prob"]) == (-0.375, 0.25)
    assert told["compression_ratio"] == len(text) / len(zlib.compress(text.encode())) > 5


def test_srt_numbers_its_cues_and_counts_hours() -> None:
    assert as_srt(TRANSCRIPT).split("\n\n")[1] == "2\n01:00:00,000 --> 01:00:01,001\nsalut"


def test_vtt_begins_with_its_name() -> None:
    assert as_vtt(TRANSCRIPT).startswith(
        "WEBVTT\n\n00:00:00.500 --> 00:00:02.500\ngood morning\n\n01:00:00.000"
    )


def test_a_recording_without_speech_is_empty_in_every_format() -> None:
    assert as_json(NOTHING)["text"] == as_verbose_json(NOTHING)["text"] == ""
    assert (as_srt(NOTHING), as_vtt(NOTHING)) == ("", "WEBVTT\n")
