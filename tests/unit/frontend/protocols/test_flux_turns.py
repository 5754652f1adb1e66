"""The order of messages on `/v2/listen`: silences wait for the text before them."""

from __future__ import annotations

import pytest

from auricle.frontend.audio.chunks import SpeechOnset
from auricle.frontend.protocols.deepgram.flux import FluxReplies, Thresholds
from auricle.frontend.session.turns import EndpointingPolicy, Turns
from auricle.protocol.sessions import ResumePoint, SegmentPartial
from tests.fakes.flux import S, final, speech, told, until

pytestmark = pytest.mark.unit
EAGER = Thresholds(eager=0.5, eot=0.9)  # 214 ms, 1.93 s


def turns(thresholds: Thresholds | None = None) -> Turns:
    return Turns(policy(thresholds or Thresholds()), FluxReplies("sess_1"))


def policy(thresholds: Thresholds, min_silence_ms: int = 500) -> EndpointingPolicy:
    return thresholds.policy(min_silence_ms, judged=False)


def partial(text: str, begin: float, end: float) -> SegmentPartial:
    resume = ResumePoint(1, int(begin * S))
    return SegmentPartial(1, text, "", int(end * 1000), "English", resume)


def test_a_turn_starts_with_its_first_words_and_ends_with_the_silence_after_them() -> None:
    subject = turns()
    assert subject.on_endpointing([SpeechOnset(S)], until(1.5)) == []
    assert told(subject.on_partial(partial("hello", 1.0, 1.6))) == [("StartOfTurn", 0, "hello")]
    assert told(subject.on_partial(partial("hello you", 1.0, 2.2))) == [("Update", 0, "hello you")]
    assert subject.on_endpointing(speech(1.0, 3.0)[1:], until(3.5)) == []
    (end,) = subject.on_final(final("hello you all", 1.0, 3.0))
    assert told([end]) == [("EndOfTurn", 0, "hello you all")]
    assert (end["trigger"], end["end_of_turn_confidence"]) == ("model", 0.7)
    assert (end["audio_window_start"], end["audio_window_end"]) == (1.0, 3.0)
    assert [word["word"] for word in end["words"]] == ["hello", "you", "all"]


def test_a_turn_without_partials_starts_and_ends_at_once() -> None:
    subject = turns()
    subject.on_endpointing(speech(0.0, 1.0), until(1.5))
    replies = subject.on_final(final("yes", 0.0, 1.0))
    assert told(replies) == [("StartOfTurn", 0, "yes"), ("EndOfTurn", 0, "yes")]
    subject.on_endpointing(speech(2.0, 3.0), until(3.5))
    assert [turn for _, turn, _ in told(subject.on_final(final("no", 2.0, 3.0)))] == [1, 1]


def test_noise_is_no_turn() -> None:
    subject = turns(EAGER)
    subject.on_endpointing(speech(0.0, 1.0), until(9.0))
    assert subject.on_final(final("", 0.0, 1.0)) == []
    assert subject.closed() == []


def test_a_turn_has_the_words_of_all_its_segments() -> None:
    """The silence that ends a turn is longer here than the one that ends speech."""
    subject = turns(Thresholds(eot=0.9))
    subject.on_endpointing(speech(0.0, 1.0), until(1.5))
    assert told(subject.on_final(final("one", 0.0, 1.0))) == [("StartOfTurn", 0, "one")]
    subject.on_endpointing(speech(2.0, 3.0), until(3.5))
    assert told(subject.on_partial(partial("two", 2.0, 2.6))) == [("Update", 0, "one two")]
    assert told(subject.on_final(final("two", 2.0, 3.0))) == [("Update", 0, "one two")]
    assert subject.on_endpointing([], until(4.9)) == []
    assert told(subject.on_endpointing([], until(5.1))) == [("EndOfTurn", 0, "one two")]


def test_a_client_is_told_before_the_end_if_that_is_wanted() -> None:
    subject = turns(EAGER)
    subject.on_endpointing(speech(0.0, 1.0), until(1.5))
    replies = subject.on_final(final("one", 0.0, 1.0))
    assert told(replies) == [("StartOfTurn", 0, "one"), ("EagerEndOfTurn", 0, "one")]
    assert replies[1]["end_of_turn_confidence"] == 0.5
    assert "trigger" not in replies[1]
    assert told(subject.on_endpointing([], until(4.0))) == [("EndOfTurn", 0, "one")]


def test_a_turn_goes_on_with_speech_that_follows_soon_enough() -> None:
    subject = turns(EAGER)
    subject.on_endpointing(speech(0.0, 1.0), until(1.5))
    subject.on_final(final("one", 0.0, 1.0))
    assert told(subject.on_endpointing(speech(2.0, 3.0), until(3.5))) == [("TurnResumed", 0, "one")]
    replies = subject.on_final(final("two", 2.0, 3.0))
    assert told(replies) == [("EagerEndOfTurn", 0, "one two")]


def test_nothing_is_resumed_that_nobody_was_told_to_be_over() -> None:
    subject = turns(EAGER)
    assert subject.on_endpointing([*speech(0.0, 1.0), *speech(1.5, 3.0)], until(3.5)) == []
    assert told(subject.on_final(final("one", 0.0, 1.0))) == [("StartOfTurn", 0, "one")]
    assert told(subject.on_final(final("two", 1.5, 3.0))) == [("EagerEndOfTurn", 0, "one two")]


def test_a_turn_that_is_never_sure_to_be_over_ends_after_the_timeout() -> None:
    subject = turns(Thresholds(eot=1.0, timeout_ms=2_000))
    subject.on_endpointing(speech(0.0, 1.0), until(1.5))
    subject.on_final(final("one", 0.0, 1.0))
    assert subject.on_endpointing([], until(3.0)) == []
    (end,) = subject.on_endpointing([], until(3.2))
    assert (end["event"], end["trigger"]) == ("EndOfTurn", "timeout")


def test_the_client_may_end_a_turn() -> None:
    subject = turns(Thresholds(eot=1.0))
    subject.on_endpointing(speech(0.0, 1.0), until(1.0))
    assert subject.on_finalized(until(1.0)) == []
    replies = subject.on_final(final("one", 0.0, 1.0))
    assert told(replies) == [("StartOfTurn", 0, "one"), ("EndOfTurn", 0, "one")]
    assert replies[-1]["trigger"] == "manual"
    assert subject.on_finalized(until(2.0)) == []  # no speech since then


def test_an_open_turn_ends_with_the_audio() -> None:
    subject = turns()
    subject.on_endpointing(speech(0.0, 1.0), until(1.0))
    subject.on_final(final("one", 0.0, 1.0))
    assert told(subject.closed()) == [("EndOfTurn", 0, "one")]


def test_messages_are_numbered_in_their_order() -> None:
    subject = turns()
    subject.on_endpointing(speech(0.0, 1.0), until(1.5))
    replies = subject.on_final(final("one", 0.0, 1.0))
    assert [reply["sequence_id"] for reply in replies] == [0, 1]


# ── thresholds ──────────────────────────────────────────────────────────────


def test_the_default_threshold_is_the_servers_silence() -> None:
    pause = policy(Thresholds()).pause(0.0)
    assert (pause.end_ms, pause.eager_ms, pause.timed_out, pause.speech_ms) == (
        500,
        None,
        False,
        500,
    )


def test_surer_is_later() -> None:
    silences = [policy(Thresholds(eot=eot)).end_ms for eot in (0.5, 0.6, 0.7, 0.8, 0.9)]
    assert silences == [214, 321, 500, 857, 1929]
    assert [policy(Thresholds()).confidence(ms) for ms in silences] == [
        pytest.approx(eot, abs=0.001) for eot in (0.5, 0.6, 0.7, 0.8, 0.9)
    ]


def test_speech_ends_soon_enough_for_the_first_that_is_told() -> None:
    assert policy(Thresholds(eager=0.5)).speech_ms == 214
    assert policy(Thresholds(eager=0.3)).speech_ms == 100  # the shortest silence
    assert policy(Thresholds(eot=0.9)).speech_ms == 500
    assert policy(Thresholds(eot=1.0, timeout_ms=60_000)).speech_ms == 500


def test_a_short_timeout_comes_first() -> None:
    pause = policy(Thresholds(eot=0.9, timeout_ms=500), 800).pause(0.0)
    assert (pause.end_ms, pause.timed_out) == (500, True)
