"""`benchmarks.peers`: the record of a session, and the figures of the rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from auricle_testing.server import ROOT
from benchmarks.load.plan import SessionPlan
from benchmarks.load.protocols.vllm_realtime import plain
from benchmarks.load.record import Record, TextEvent
from benchmarks.peers import figures, plots, recordings, servers, speech
from benchmarks.peers.figures import Heard, Row
from benchmarks.real_speech.corpus import Spoken
from benchmarks.report_tables import TABLES
from benchmarks.statistics import percentile_interval
from benchmarks.words import Errors

pytestmark = pytest.mark.unit
RATE = 16_000
WHISPER = "whisper-tiny.en"


def record(*events: tuple[float, str, str], stopped: float, final: float) -> Record:
    """A session of 4 s whose speech begins after 1 s; it began at 100 s."""
    plan = SessionPlan("a/1", np.zeros(4 * RATE, np.int16), (), ((1.0, 3.9),))
    due = [100.0 + (n + 1) / 10 for n in range(40)]
    texts = [TextEvent(100 + at, 0, kept, rest, False, None) for at, kept, rest in events]
    text = events[-1][1] + events[-1][2]
    last = TextEvent(100 + final, 0, text, "", True, None)
    return Record(
        plan, 0.1, 100.0, "done", due_at=due, sent_at=due, stopped_at=100 + stopped,
        events=[*texts, last], text=text,
    )  # fmt: skip


def test_a_session_is_judged_by_what_was_shown_and_when() -> None:
    found = figures.heard(
        record((1.5, "", ""), (2.0, "", "one too"), (3.0, "one", " two"), stopped=4.0, final=4.3),
        Errors(0, 2),
    )
    assert found.first == pytest.approx(1.0)
    assert found.final == pytest.approx(0.3)
    assert found.revised == 1


def test_a_failed_session_has_no_last_text() -> None:
    failed = Record(
        record((2.0, "", "a"), stopped=4.0, final=5.0).plan, 0.1, 100.0, "failed", "lost"
    )
    found = figures.heard(failed, Errors(5, 5))
    assert (found.outcome, found.first, found.final) == ("failed: lost", None, None)


def live_row(server: str, sessions: int, final: float | None, wrong: int = 0) -> Row:
    """Ten sessions that end alike, of a recording that has 100 words."""
    heard = Heard("a/1", "done", 1.0, final, wrong, 100, 3, "text")
    return {
        "part": "live", "server": server, "model": WHISPER, "sessions": sessions, "late": "",
        "offline": "o", "heard": [asdict(heard)] * 10, "command": "serve", "cpu_seconds": 5.0,
        "audio_seconds": 50.0, "peak_mib": 100.0, "seconds": 60.0,
    }  # fmt: skip


def offline_row(wrong: int, repeat_wall: float = 10.0) -> Row:
    return {
        "part": "recordings", "configuration": "o", "model": WHISPER, "command": "o",
        "errors": {"a": [wrong, 100], "b": [50, 100]}, "audio_seconds": 100.0,
        "wall_seconds": repeat_wall, "cpu_seconds": 8.0, "peak_mib": 90.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        (live_row("s", 1, 0.9), True),
        (live_row("s", 1, 1.1), False),
        (live_row("s", 1, None), False),
        (live_row("s", 1, 0.9, wrong=4), True),
        (live_row("s", 1, 0.9, wrong=5), False),
        (live_row("s", 1, 0.9) | {"late": "5.0% of packets left late"}, False),
        (live_row("s", 1, 0.9) | {"heard": []}, False),
    ],
)
def test_the_objective_is_the_last_text_within_a_second_and_the_words_of_the_same_recordings(
    row: Row, kept: bool
) -> None:
    (found,) = figures.live([offline_row(wrong=3), row])
    assert found["kept"] is kept
    assert found["offline_wer"] == 3.0 or not row["heard"]


def test_a_few_wrong_words_do_not_show_that_a_server_is_worse() -> None:
    row = live_row("s", 1, 0.9, wrong=3)
    for number, wrong in ((0, 13), (1, 13)):  # two points more, but in two sessions of ten
        row["heard"][number] = row["heard"][number] | {"wrong": wrong}
    (found,) = figures.live([offline_row(wrong=3), row])
    low, high = found["worse_interval"]
    assert low < 1 and high > 2
    assert found["kept"]


def test_word_errors_are_compared_for_the_sessions_that_ended_with_both() -> None:
    ours, theirs = live_row(figures.OURS, 1, 0.4, wrong=1), live_row("s", 1, 3.0, wrong=4)
    for row in (ours, theirs):
        row["heard"] = [one | {"name": f"a/{n}"} for n, one in enumerate(row["heard"])]
    theirs["heard"] = theirs["heard"][:5]
    ours["heard"][7:] = [one | {"wrong": 90} for one in ours["heard"][7:]]
    own, other = figures.live([ours, theirs])
    assert own["ours_minus"] is None
    assert other["ours_minus"] == pytest.approx(-3.0)
    assert other["ours_minus_interval"] == pytest.approx((-3.0, -3.0))


def test_the_most_sessions_are_those_of_the_last_number_that_was_kept() -> None:
    rows = [
        live_row("s", 1, 0.4),
        live_row("s", 2, 0.8),
        live_row("s", 3, 2.0),
        live_row("t", 1, 9),
    ]
    assert figures.carried(figures.live(rows)) == {("s", WHISPER): 2, ("t", WHISPER): 0}


def test_repeated_measurements_are_pooled() -> None:
    (found,) = figures.live([live_row("s", 1, 0.4), live_row("s", 1, 0.8)])
    assert (found["ended"], found["final_s_p50"]) == (20, pytest.approx(0.6))
    assert found["cpu_per_second"] == pytest.approx(0.1)
    assert found["revised_per_100"] == pytest.approx(3.0)


def test_the_speed_of_recordings_is_a_median() -> None:
    (found,) = figures.recordings([offline_row(3, wall) for wall in (5.0, 10.0, 20.0)])
    assert (found["rtfx"], found["rtfx_low"], found["rtfx_high"]) == (10.0, 5.0, 20.0)


def test_intervals_of_percentiles_need_two_values_and_enclose_the_percentile() -> None:
    assert percentile_interval([1.0], 0.5) is None
    low, high = percentile_interval(list(range(100)), 0.5) or (0.0, 0.0)
    assert 35 < low < 49.5 < high < 65


def test_sessions_of_a_recording_never_have_the_same_samples() -> None:
    dice = np.random.default_rng(0).integers(-9000, 9000, 2 * RATE).astype(np.int16)
    plans = speech.Recordings([Spoken("a", dice, "some words", "English")], seed=1)
    first, second = plans.next(), plans.next()
    assert (first.text, first.name, second.name) == ("some words", "a/1", "a/2")
    assert not np.array_equal(first.pcm, second.pcm)


def test_every_server_is_compared_with_a_configuration_that_is_measured() -> None:
    offline = {peer.offline for peer in servers.PEERS.values() if peer.live}
    assert offline <= {*recordings.CONFIGURATIONS}


def test_servers_get_the_weights_and_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "WORK", tmp_path)
    (tmp_path / "hf").mkdir()
    config = {"thinker_config": {"text_config": {"rope_scaling": None}}}
    (tmp_path / "hf/config.json").write_text(json.dumps(config))
    weights = servers.Weights(WHISPER, tmp_path / "hf", Path("/ct2"))
    for name, peer in servers.PEERS.items():
        if name != "asr-concurrent-stream":  # its package would be downloaded
            words = " ".join(peer.command(weights, 4321))
            assert "4321" in words, name
            for written in tmp_path.glob(f"{name}-*"):
                words += written.read_text()
            assert "/hf" in words or "/ct2" in words, name


def test_qwens_own_code_finds_the_kind_of_rotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads this without a check, and models/demo has none."""
    monkeypatch.setattr(servers, "WORK", tmp_path)
    written = servers.with_rope(servers.weights("demo")) / "config.json"
    config = json.loads(written.read_text())["thinker_config"]["text_config"]
    assert config["rope_scaling"] == {"rope_type": "default"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("language English<asr_text>a red bus", "a red bus"),
        ("language English<asr_text>a red buslanguage", "a red bus"),
        ("language English<asr_text>a red buslanguage English<asr_text>at", "a red bus at"),
        ("language English<asr_text>her language", "her language"),
        ("language English<asr_text>language", "language"),
        ("language", ""),
    ],
)
def test_the_marks_of_vllm_are_no_words(said: str, shown: str) -> None:
    assert plain(said) == shown


def test_the_packages_are_those_of_the_lock() -> None:
    for name, peer in servers.PEERS.items():
        if name != "asr-concurrent-stream":  # it is unpacked elsewhere
            environment = peer.python.parents[1].name.removeprefix(".venv-")
            lock = (ROOT / f"requirements/{environment}.txt").read_text()
            assert f"{peer.package}==" in lock, name


def test_the_tables_and_the_plot_are_made_of_the_rows(tmp_path: Path) -> None:
    rows = [offline_row(3), live_row("s", 1, 0.4), live_row("s", 2, 1.5)]
    rows.append(live_row("s", 1, 0.4) | {"part": "wordless"})
    found = figures.tables(rows)
    plots.draw(found["live"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"peers-{WHISPER}.png"]
    text = "\n".join(TABLES["peers"]({"details": json.loads(json.dumps(found))}))
    assert "| s | 1 |" in text
    assert f"plots/peers-{WHISPER}.png" in text
