"""The fault suite's figures follow from its rows, and its hooks name methods that exist."""

from __future__ import annotations

import ast
import importlib.util
import math
from pathlib import Path

import pytest

from auricle_testing.transcripts import Compared, compared, events_compared, on_the_bus
from benchmarks.faults.figures import Row, figures, recovery_seconds
from benchmarks.faults.kinds import CONTROL
from benchmarks.faults.site.sitecustomize import ENCODER, ENGINES, NIXL

pytestmark = pytest.mark.unit
SAID = "seven boats wait in the harbour"


# ── hooks ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("module", "name", "method"), [NIXL, ENCODER, *ENGINES])
def test_the_methods_that_a_fault_replaces_exist(module: str, name: str, method: str) -> None:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text()).body
    (owner,) = [one for one in body if isinstance(one, ast.ClassDef) and one.name == name]
    defined = ast.FunctionDef | ast.AsyncFunctionDef
    assert method in {one.name for one in owner.body if isinstance(one, defined)}


# ── comparison ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SAID, Compared(0, 0, 0)),
        ("seven boats wait the harbour", Compared(1, 0, 0)),
        ("seven boats wait in in the harbour", Compared(0, 1, 0)),
        ("seven goats wait in the harbour", Compared(0, 0, 1)),
        (f"{SAID} {SAID}", Compared(0, 6, 0)),
        ("", Compared(6, 0, 0)),
    ],
)
def test_a_lost_a_doubled_and_a_changed_word_are_told_apart(found: str, expected: Compared) -> None:
    assert compared(SAID, found) == expected
    assert expected.identical == (found == SAID)


def test_words_where_nothing_was_said_are_too_many() -> None:
    assert compared("", "a word") == Compared(0, 2, 0)


def test_the_bus_must_have_each_text_as_often_as_clients_heard_it() -> None:
    assert on_the_bus(["a", "b", "a", ""], ["a", "b", "a"]) == (0, 0)
    assert on_the_bus(["a", "a"], ["a", "b"]) == (1, 1)


def told(kind: str, ms: float, segment: int = 0) -> dict[str, object]:
    time = {"partial": "audio_ms", "final": "end_ms"}.get(kind, "at_ms")
    return {"type": kind, time: ms, "segment": segment}


WHOLE = [
    told("speech_started", 300),
    told("partial", 940),
    told("partial", 1_580),
    told("speech_stopped", 2_000),
    told("final", 2_000),
    told("speech_started", 3_100),
    told("partial", 4_000, segment=1),
    told("speech_stopped", 5_000),
    told("final", 5_000, segment=1),
]


def test_the_same_events_are_neither_lost_nor_doubled() -> None:
    assert events_compared(WHOLE, WHOLE) == (0, 0)


def test_a_partial_may_be_left_out_and_a_cut_lie_a_frame_or_two_elsewhere() -> None:
    found = [event for event in WHOLE if event != told("partial", 940)]
    found[found.index(told("final", 2_000))] = told("final", 1_980)
    assert events_compared(WHOLE, found) == (0, 0)


@pytest.mark.parametrize("kind", ["speech_started", "speech_stopped", "final"])
def test_a_mark_or_a_final_that_is_missing_is_lost_and_one_told_twice_is_doubled(kind: str) -> None:
    at = next(n for n, event in enumerate(WHOLE) if event["type"] == kind)
    assert events_compared(WHOLE, WHOLE[:at] + WHOLE[at + 1 :]) == (1, 0)
    assert events_compared(WHOLE, WHOLE[: at + 1] + WHOLE[at:]) == (0, 1)


@pytest.mark.parametrize("again", [told("partial", 940), told("partial", 1_580)])
def test_a_partial_that_says_no_more_than_one_before_is_doubled(again: dict[str, object]) -> None:
    assert events_compared(WHOLE, [*WHOLE[:3], again, *WHOLE[3:]]) == (0, 1)


def test_a_partial_after_its_final_is_doubled() -> None:
    assert events_compared(WHOLE, [*WHOLE[:5], told("partial", 2_500), *WHOLE[5:]]) == (0, 1)


# ── recovery ────────────────────────────────────────────────────────────────

# Text of every second of audio, 0.3 s after it was spoken.
UNDISTURBED = [(second + 0.3, 1000.0 * second) for second in range(1, 11)]


def test_text_that_comes_when_it_always_does_has_not_stood_still() -> None:
    assert recovery_seconds(UNDISTURBED, UNDISTURBED, at_seconds=4.2) == 0.0


def test_text_stands_still_until_that_of_what_was_spoken_after_the_fault() -> None:
    # Text stops at 4.2 s; the event of the fourth second is in transit. Text resumes at 7.3 s.
    found = [(at if ms <= 4000 else max(at, 7.3), ms) for at, ms in UNDISTURBED]
    assert recovery_seconds(UNDISTURBED, found, at_seconds=4.2) == pytest.approx(2.0)


def test_a_fault_that_shows_later_counts_too() -> None:
    found = [(at + (1.5 if ms == 7000 else 0.0), ms) for at, ms in UNDISTURBED]
    assert recovery_seconds(UNDISTURBED, found, at_seconds=4.2) == pytest.approx(1.0)


def test_text_that_never_comes_never_recovers() -> None:
    assert math.isinf(recovery_seconds(UNDISTURBED, UNDISTURBED[:4], at_seconds=4.2))


def test_text_that_was_due_after_the_next_fault_is_that_ones() -> None:
    # A fault at 2.2 s has no effect; a fault at 5.2 s stops the text until 9.3 s.
    found = [(at if ms <= 5000 else max(at, 9.3), ms) for at, ms in UNDISTURBED]
    assert recovery_seconds(UNDISTURBED, found, at_seconds=2.2, until_seconds=5.2) == 0.0
    assert recovery_seconds(UNDISTURBED, found, at_seconds=5.2) == pytest.approx(3.0)


def test_text_that_was_due_before_the_next_fault_and_did_not_come_counts_in_full() -> None:
    found = [(at if ms <= 2000 else max(at, 9.3), ms) for at, ms in UNDISTURBED]
    seconds = recovery_seconds(UNDISTURBED, found, at_seconds=2.2, until_seconds=5.2)
    assert seconds == pytest.approx(6.0)


def test_two_faults_between_two_texts_are_the_second_ones() -> None:
    found = [(at + 1.0, ms) for at, ms in UNDISTURBED]
    assert recovery_seconds(UNDISTURBED, found, at_seconds=4.4, until_seconds=4.6) is None


def test_after_the_last_text_there_is_nothing_to_recover() -> None:
    assert recovery_seconds(UNDISTURBED, UNDISTURBED, at_seconds=10.5) == 0.0


# ── figures ─────────────────────────────────────────────────────────────────


def row(kind: str, **values: object) -> Row:
    fixed = {"type": "fault", "kind": kind, "injected": True, "lost": 0, "doubled": 0}
    fixed |= {"changed": 0, "identical": True, "error": "", "broken": "", "hits": []}
    fixed |= {"resumes": 0, "events_lost": 0, "events_doubled": 0}
    return fixed | values


def test_figures_count_what_faults_did() -> None:
    hit = {"kind": "kill-pd-worker", "at": 1.0, "recovery": 2.5}
    found = figures(
        [
            {"type": "run"},
            row("kill-pd-worker", lost=1, identical=False, hits=[hit]),
            row("kill-pd-worker", doubled=2, identical=False, error="it failed"),
            row("pd-cut"),
            row("restart-nats", injected=False),
            {"type": "bus", "missing": 1, "surplus": 0, "heard": 4},
            {"type": "left", "what": ["file socket"]},
        ]
    )
    assert (found["faults_injected"], found["kinds"], found["faults_not_injected"]) == (3, 2, 1)
    assert (found["words_lost"], found["words_doubled"], found["sessions_failed"]) == (1, 2, 1)
    assert found["transcripts_identical_share"] == 0.5
    assert found["recovery_p95_worker_s"] == 2.5
    assert "recovery_p95_processor_s" not in found
    assert (found["left_behind"], found["bus_lost"], found["bus_doubled"]) == (1, 1, 0)


def test_a_control_is_no_fault_but_its_words_count() -> None:
    found = figures([row(CONTROL.name, lost=1, identical=False), row("pd-cut")])
    assert (found["faults_injected"], found["words_lost"]) == (1, 1)
    assert found["transcripts_identical_share"] == 1.0


def test_events_count_in_sessions_that_were_resumed() -> None:
    found = figures(
        [
            row("client-cut", resumes=1, events_lost=1),
            row("kill-frontend", resumes=2, events_doubled=3),
            row("freeze-processor", events_lost=5),
        ]
    )
    assert (found["resumes"], found["resume_events_lost_or_doubled"]) == (3, 4)


def test_a_session_beside_a_fault_counts_in_its_recovery() -> None:
    hits = [
        {"kind": "pd-cut", "at": 1.0, "recovery": 0.2},
        {"kind": "freeze-processor", "at": 8.0, "recovery": 4.0},
    ]
    assert figures([row("pd-cut", hits=hits)])["recovery_p95_frozen_s"] == 4.0


def test_faults_that_come_together_count_apart() -> None:
    first = {"kind": "kill-processor", "at": 1.0, "recovery": 7.0}
    second = {"kind": "freeze-pd-worker", "at": 3.0, "recovery": 5.0}
    later = {"kind": "kill-processor", "at": 9.0, "recovery": 0.2}
    found = figures([row("kill-processor", hits=[first, second, later])])
    assert found["recovery_p95_processor_s"] == 0.2
    assert "recovery_p95_frozen_s" not in found
    assert found["recovery_p95_together_s"] == 7.0


def test_a_fault_of_which_nothing_can_be_said_has_no_recovery() -> None:
    hits = [{"kind": "freeze-processor", "at": 3.0, "recovery": None}]
    assert "recovery_p95_frozen_s" not in figures([row("freeze-processor", hits=hits)])
