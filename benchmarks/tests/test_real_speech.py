"""`benchmarks.real_speech`: texts of recordings, noise, scores, and the choice of units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from auricle.audio.pcm import to_float, to_int16
from benchmarks.real_speech import conditions, scoring
from benchmarks.real_speech.corpus import Spoken
from benchmarks.real_speech.figures import compared, figures, invented, latencies
from benchmarks.real_speech.units import Row, Unit
from benchmarks.words import Errors

pytestmark = pytest.mark.unit
RATE = 16_000


@pytest.fixture(autouse=True)
def spellings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replace the spelling table of a package."""
    (tmp_path / "english.json").write_text(json.dumps({"colour": "color"}))
    monkeypatch.setattr(scoring, "from_pypi", lambda *_: tmp_path)
    scoring.normaliser.cache_clear()


def spoken(name: str, seconds: float, text: str = "") -> Spoken:
    tone = np.sin(np.arange(int(seconds * RATE)) * 0.2).astype(np.float32) * np.float32(0.3)
    return Spoken(name, to_int16(tone), text, "English")


def test_noise_is_as_loud_as_it_is_said_to_be() -> None:
    speech = to_float(spoken("a", 2.0).pcm)
    noise = np.random.default_rng(1).standard_normal(len(speech)).astype(np.float32)
    added = conditions.mixed(speech, noise, 10.0) - speech
    ratio = np.sqrt(np.mean(speech**2)) / np.sqrt(np.mean(added**2))
    assert 20 * np.log10(ratio) == pytest.approx(10.0, abs=0.1)
    loud = conditions.mixed(np.full(100, 0.9, np.float32), np.ones(100, np.float32), 3.0)
    assert np.abs(loud).max() <= 1.0


def test_numbers_spellings_and_titles_do_not_count_and_neither_do_accents() -> None:
    assert scoring.scored("dial two, Mr. Colour", "Dial 2 mister color.", "English").wrong == 0
    assert scoring.scored("five five eight of spades", "5, 5. 8 of spades", "English").wrong == 0
    assert scoring.scored("su número", "Su numero.", "Spanish") == Errors(0, 2)
    assert scoring.scored("one red bus", "", "English") == Errors(3, 3)


def test_an_interval_holds_the_rate_and_one_recording_has_none() -> None:
    rows = [Errors(1, 10), Errors(3, 10), Errors(0, 20), Errors(2, 10)]
    found = scoring.interval(rows)
    assert found is not None and found[0] < scoring.points(rows) < found[1]
    assert scoring.interval(rows[:1]) is None
    assert scoring.difference(rows, rows) == (0.0, 0.0)


def test_differences_are_of_recordings_that_both_have_heard() -> None:
    ours, theirs = {"a": Errors(2, 10), "b": Errors(9, 9)}, {"a": Errors(1, 10)}
    assert compared("x", ours, theirs) == {"wer_x": pytest.approx(10.0)}


def test_figures_of_units_are_by_way_and_set() -> None:
    said = {"a": ("my red bus is slow", "English"), "b": ("a slow bus", "English")}
    post = Unit((Row("a", "My red bus is slow."), Row("b", "a slow bus")), 10.0, 2.0)
    live = Unit((Row("a", "my red bus is blue"), Row("b", "a slow bus")), 10.0, 5.0)
    faster = Unit((Row("a", "my bus is slow"), Row("b", "a slow bus")), 10.0, 1.0)
    voiced = Unit((Row("a", "my red bus slow"), Row("b", "bus")), 10.0, 1.0)
    found = figures(
        {
            ("post", "people"): post,
            ("live", "people"): live,
            ("faster_whisper", "people"): faster,
            ("faster_whisper_vad", "people"): voiced,
        },
        said,
    )
    assert found["wer_post_people"] == 0.0 and found["wer_live_people"] == pytest.approx(12.5)
    assert found["wer_live_minus_post_people"] == pytest.approx(12.5)
    assert found["wer_post_minus_best_people"] == pytest.approx(-12.5)
    assert found["cpu_per_second_live_people"] == 0.5 and found["words_people"] == 8.0


def test_words_where_nobody_speaks_are_counted_by_kind() -> None:
    unit = Unit((Row("music", "thank you"), Row("silence", "")), 120.0, 1.0)
    found = invented("live", unit)
    assert (found["invented_words_live"], found["invented_words_live_music"]) == (2.0, 2.0)
    assert found["wordless_minutes_live"] == 2.0


def test_sessions_without_text_have_no_latency_but_are_counted() -> None:
    rows = (Row("a", "x", None, 1.0, 0.2), Row("b", ""), Row("c", "y", None, 2.0, 0.4))
    found = latencies(Unit(rows, 9.0, 1.0))
    assert (found["first_text_p50_s"], found["stop_to_final_p50_ms"]) == (1.5, pytest.approx(300))
    assert (found["real_time_sessions"], found["real_time_without_text"]) == (3.0, 1.0)
