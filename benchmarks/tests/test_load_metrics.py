"""The load generator's figures, on sessions whose answers are known."""

from __future__ import annotations

import math

import pytest

from benchmarks.load.capacity import carried
from benchmarks.load.metrics import (
    Slo,
    commit_lags,
    figures,
    first_partial,
    late_share,
    partial_lags,
    shown_lags,
    stability,
    stop_to_final,
    word_errors,
)
from benchmarks.load.record import Record
from benchmarks.load.soak import drift
from benchmarks.load.spans import Span, waterfall
from benchmarks.load.trial import Load, Trial
from benchmarks.tests.records import final, partial, record, served

pytestmark = pytest.mark.unit


def test_lag_is_that_of_every_packet_to_the_text_that_reaches_it() -> None:
    subject = record(partial(100.9, "", "good", 0.7), final(101.7, "good morning all", 1.5))
    lags = partial_lags(subject)
    # Speech up to 1.4 s: packets ending at 0.1 … 1.3; the first seven wait for the partial.
    assert lags[:7] == pytest.approx([100.9 - (100 + 0.1 * i) for i in range(1, 8)])
    assert lags[7:] == pytest.approx([101.7 - (100 + 0.1 * i) for i in range(8, 14)])


def test_audio_that_no_text_ever_reaches_is_never_served() -> None:
    assert partial_lags(record(partial(100.9, "", "good", 0.7)))[-1] == math.inf


def test_latency_counts_from_when_a_packet_was_due_however_late_it_was_sent() -> None:
    subject = record(partial(100.9, "", "good", 0.7))
    subject.sent_at = [at + 0.2 for at in subject.sent_at]
    assert first_partial(subject) == pytest.approx(0.2)
    assert late_share([subject]) == 1.0


def test_words_are_shown_and_committed_when_they_first_stand_in_their_place() -> None:
    subject = record(
        partial(100.6, "", "good mourning"),
        partial(101.1, "good", " morning"),
        final(101.7, "good morning all"),
    )
    # Words end at 0.4, 0.9 and 1.2 s, in packets due then.
    assert shown_lags(subject) == pytest.approx([0.2, 0.2, 0.5])
    assert commit_lags(subject) == pytest.approx([0.7, 0.8, 0.5])


def test_protocols_without_positions_are_judged_by_words() -> None:
    subject = record(partial(101.1, "good", " morning"), final(101.7, "good morning all"))
    assert partial_lags(subject) == shown_lags(subject)


def test_what_is_taken_back_counts_each_time_and_each_place() -> None:
    moved = stability(
        record(
            partial(100.5, "", "good mourning"),
            partial(100.8, "", "could mourning"),
            partial(101.0, "", "good morning"),
            final(101.7, "good morning all"),
        )
    )
    assert (moved.erased, moved.unstable, moved.words) == (4, 2, 3)


def test_errors_do_not_count_spelling_and_case() -> None:
    assert word_errors([record(final(101.7, "Good morning, all!"))]).wer == 0
    assert word_errors([record(final(101.7, "good evening all"))]).wer == pytest.approx(1 / 3)


def test_a_session_keeps_the_slo_by_its_lag_and_its_stop() -> None:
    slo = Slo(0.64, 0.5)
    assert slo.kept(served())
    assert not slo.kept(served(stop=0.51))
    assert not slo.kept(served(lag=0.95))
    assert not slo.kept(record(outcome="failed"))
    late_words = served()
    late_words.finished_at += 3.0
    assert slo.kept(late_words)  # text was there
    assert stop_to_final(record(outcome="failed")) == math.inf


def test_a_number_of_sessions_is_carried_if_nobody_suffers_and_the_load_was_real() -> None:
    def trial(*records: Record) -> bool:
        return carried(Trial(Load(1, 1.0), list(records)))

    assert trial(*[served()] * 100, *[served(stop=1.0)])
    assert not trial(*[served()] * 98, *[served(stop=1.0)] * 2)
    assert not trial(*[served()] * 100, record(outcome="refused"))
    slowed = served(lag=0.95)
    slowed.chunk_seconds = 1.28
    assert Slo().kept(slowed)
    assert not trial(*[served()] * 100, slowed)
    late = served()
    late.sent_at = [at + 0.06 for at in late.sent_at]
    assert not trial(*[served()] * 10, late)
    assert not trial()


def test_text_that_is_fast_and_wrong_is_not_carried_where_words_mean_something() -> None:
    wrong = served()
    wrong.text = "no bad evening none"
    for worst, held in ((None, True), (0.25, False)):
        assert carried(Trial(Load(1, 1.0, worst_wer=worst), [wrong] * 10)) is held
    assert carried(Trial(Load(1, 1.0, worst_wer=0.25), [served()] * 10))


def test_refused_sessions_are_counted_apart() -> None:
    found = figures([served(), record(outcome="refused"), record(outcome="failed")], Slo())
    assert (found["sessions"], found["sessions_refused"], found["sessions_failed"]) == (2, 1, 1)
    assert found["slo_share"] == 0.5


def test_growth_is_the_slope_after_warm_up() -> None:
    memory = [(60.0 * m, 1000 + (500 if m < 5 else 3 * m)) for m in range(30)]
    found = drift(memory, [served() for _ in range(9)])
    assert found.mb_per_min == pytest.approx(3.0)
    assert found.lag_growth == pytest.approx(1.0)


def test_a_chunks_time_is_told_apart_by_its_spans() -> None:
    def span(name: str, number: int, parent: int, start: float, end: float) -> Span:
        return Span(name, bytes([number]), bytes([parent]), start, end, False)

    spans = [
        span("voice_activity", 9, 0, -0.02, 0.0),
        span("chunk", 1, 0, 0.0, 0.1),
        span("mel", 2, 1, 0.0, 0.01),
        span("encode", 3, 1, 0.01, 0.04),
        span("encode_pass", 7, 3, 0.015, 0.035),
        span("decode", 4, 1, 0.04, 0.1),
        span("fetch", 5, 4, 0.04, 0.05),
        span("generate", 6, 4, 0.05, 0.09),
        span("prefill", 8, 6, 0.05, 0.06),
        span("decode_steps", 10, 6, 0.06, 0.09),
    ]
    found = waterfall(spans, [0.16])
    assert found["encode_pass"] == pytest.approx(0.02)
    assert found["calls"] == pytest.approx(0.1 - 0.01 - 0.02 - 0.01 - 0.01 - 0.03)
    assert found["receive"] == pytest.approx(0.16 - 0.1 - 0.02)
    assert found["control"] == pytest.approx(0.16 - 0.03 - 0.01 - 0.04)
