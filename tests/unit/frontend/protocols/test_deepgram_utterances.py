"""The order of messages on `/v1/listen`: speech events wait for the text that they refer to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auricle.frontend.audio.chunks import AudioChunk, SpeechEnd, SpeechOnset
from auricle.frontend.protocols.deepgram.live import Utterances
from auricle.frontend.protocols.deepgram.messages import DeepgramReplies
from auricle.frontend.protocols.deepgram.options import ListenOptions
from auricle.protocol.sessions import Boundary, ResumePoint, SegmentFinal, SegmentPartial

pytestmark = pytest.mark.unit
S = 16_000  # samples of a second


def listening(**options: Any) -> Utterances:
    asked = ListenOptions(encoding="pcm_s16le", sample_rate=S, **options)
    return Utterances(asked, DeepgramReplies("sess_1", "demo"))


def speech(begin: float, end: float, boundary: Boundary = "endpoint") -> AudioChunk:
    return AudioChunk(int(begin * S), np.zeros(int((end - begin) * S), np.int16), boundary)


def final(text: str, begin: float, end: float) -> SegmentFinal:
    resume = ResumePoint(1, int(end * S))
    return SegmentFinal(0, text, int(begin * 1000), int(end * 1000), "English", resume)


def told(replies: list[dict[str, Any]]) -> list[str]:
    """A short form of each message."""
    return [
        " ".join(
            [
                reply["type"],
                *(flag for flag in ("is_final", "speech_final", "from_finalize") if reply[flag]),
                reply["channel"]["alternatives"][0]["transcript"],
            ]
        ).strip()
        if reply["type"] == "Results"
        else reply["type"]
        for reply in replies
    ]


def test_the_text_of_an_utterance_says_that_speech_has_ended() -> None:
    utterances = listening()
    found = [SpeechOnset(S), speech(1.0, 3.0), SpeechEnd(3 * S)]
    assert utterances.on_endpointing(found, 4 * S) == []
    (results,) = utterances.on_final(final("hello", 1.0, 3.0))
    assert told([results]) == ["Results is_final speech_final hello"]
    assert (results["start"], results["duration"]) == (1.0, 2.0)
    assert results["metadata"]["request_id"] == "sess_1"


def test_a_segment_that_ends_within_speech_does_not() -> None:
    utterances = listening()
    utterances.on_endpointing([speech(0.0, 5.0, "pause")], 5 * S)
    assert told(utterances.on_final(final("one", 0.0, 5.0))) == ["Results is_final one"]
    utterances.on_endpointing([speech(5.0, 7.0)], 8 * S)
    assert told(utterances.on_final(final("two", 5.0, 7.0))) == [
        "Results is_final speech_final two"
    ]


def test_speech_that_ends_after_its_text_was_told_is_said_to_have_ended() -> None:
    """A segment ended at the pause before, and the remaining speech is too short for another."""
    utterances = listening()
    utterances.on_endpointing([speech(0.0, 5.0, "pause")], 5 * S)
    utterances.on_final(final("one", 0.0, 5.0))
    assert told(utterances.on_endpointing([speech(5.0, 5.05)], 6 * S)) == [
        "Results is_final speech_final"
    ]


def test_the_text_of_one_utterance_does_not_end_the_next() -> None:
    utterances = listening()
    utterances.on_endpointing([speech(0.0, 1.0), speech(2.0, 3.0)], 4 * S)
    assert told(utterances.on_final(final("one", 0.0, 1.0))) == [
        "Results is_final speech_final one"
    ]
    assert told(utterances.on_final(final("two", 2.0, 3.0))) == [
        "Results is_final speech_final two"
    ]


def test_without_endpointing_no_result_ends_speech() -> None:
    utterances = listening(speech_final=False)
    assert utterances.on_endpointing([speech(0.0, 1.0)], 2 * S) == []
    assert told(utterances.on_final(final("one", 0.0, 1.0))) == ["Results is_final one"]


def test_finalize_is_answered_with_the_text_it_made_final() -> None:
    utterances = listening()
    assert utterances.on_endpointing([speech(0.0, 1.0)], S) == []
    assert utterances.on_finalized(S) == []
    assert told(utterances.on_final(final("one", 0.0, 1.0))) == [
        "Results is_final speech_final from_finalize one"
    ]


def test_finalize_in_silence_is_answered_at_once() -> None:
    assert told(listening().on_finalized(S)) == ["Results is_final from_finalize"]


def test_partial_text_is_told_if_it_is_wanted() -> None:
    partial = SegmentPartial(1, "one two", " three", 2500, "English", ResumePoint(1, S))
    assert listening().on_partial(partial) == []
    (results,) = listening(partials=True).on_partial(partial)
    assert told([results]) == ["Results one two three"]
    assert (results["start"], results["duration"]) == (1.0, 1.5)


def test_speech_that_starts_is_told_if_it_is_wanted() -> None:
    assert listening().on_endpointing([SpeechOnset(S)], S) == []
    (event,) = listening(vad_events=True).on_endpointing([SpeechOnset(S // 2)], S)
    assert event == {"type": "SpeechStarted", "channel": [0, 1], "timestamp": 0.5}


def test_an_utterance_ends_after_the_gap_and_after_its_text() -> None:
    utterances = listening(utterance_end_ms=1000)
    utterances.on_endpointing([SpeechOnset(0), speech(0.0, 1.2), SpeechEnd(S)], int(1.5 * S))
    assert utterances.on_endpointing([], 3 * S) == []  # the gap is there, but the text is missing
    replies = utterances.on_final(final("one", 0.0, 1.2))
    assert told(replies) == ["Results is_final speech_final one", "UtteranceEnd"]
    assert replies[-1]["last_word_end"] == 1.0
    assert utterances.on_endpointing([], 9 * S) == []


def test_a_shorter_silence_does_not_end_an_utterance() -> None:
    utterances = listening(utterance_end_ms=2000)
    utterances.on_endpointing([SpeechOnset(0), speech(0.0, 1.2), SpeechEnd(S)], int(1.5 * S))
    utterances.on_final(final("one", 0.0, 1.2))
    assert utterances.on_endpointing([SpeechOnset(int(2.5 * S))], 4 * S) == []
    assert utterances.on_endpointing([], 9 * S) == []


def test_an_utterance_without_words_does_not_end() -> None:
    utterances = listening(utterance_end_ms=1000)
    utterances.on_endpointing([SpeechOnset(0), speech(0.0, 1.2), SpeechEnd(S)], 3 * S)
    assert told(utterances.on_final(final("", 0.0, 1.2))) == ["Results is_final speech_final"]
