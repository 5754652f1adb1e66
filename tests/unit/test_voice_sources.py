"""`models.training.sources` and `shards`: who is trained on, who never, and shards that go on."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.people.voices import FLITE_VOICES
from models.training import packages, shards
from models.training.augment.surroundings import Surroundings
from models.training.corpus import Corpus, synthesise
from models.training.espeak import Espeak, Speech
from models.training.examples import ExampleMaker
from models.training.mixture import Mixture
from models.training.sentences import vocabulary
from models.training.shards import FOLDER, Shard, opened
from models.training.sources import SOURCES, card, engine, people, speaking
from models.training.sources.engines import speech
from models.training.sources.people import People, persons, trimmed
from models.training.voices import UNSEEN_VARIANTS
from tests.server import ROOT

pytestmark = pytest.mark.unit


class Tones:
    """A note for each word; voices are `low` and `high`."""

    def words(self, voice: str) -> None:
        """Any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        words, length = text.split(), round(1600 / speed)
        pitch = 200 if voice == "low" else 400
        notes = [np.sin(np.arange(length) * (pitch + len(word)) / 8000) for word in words]
        ends = [(at + 1) * length / 16_000 for at in range(len(words))]
        return speech((8000 * np.concatenate(notes)).astype(np.int16), 16_000, text, ends)


@pytest.fixture(autouse=True)
def tones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A source that needs no package, and small shards."""
    source = replace(
        SOURCES["flite"], name="tones", fetch=tuple, engine=Tones, voices=("low",),
        held_out=("high",), share=0.4, sentences=24,
    )  # fmt: skip
    monkeypatch.setitem(SOURCES, "tones", source)
    monkeypatch.setattr(shards, "_SIZE", 8)
    yield
    engine.cache_clear()


def test_nobody_who_is_tested_with_is_trained_on() -> None:
    for source in SOURCES.values():
        assert not set(source.voices) & set(source.held_out), source.name
        assert not any("asterisk" in package for package in source.packages)
    assert set(FLITE_VOICES) == set(SOURCES["flite"].held_out)
    variants = {voice.partition("+")[2] for voice in SOURCES["espeak-ng"].voices}
    assert not variants & set(UNSEEN_VARIANTS)
    assert any(person.held_out for person in persons().values())


def test_what_people_have_said_is_in_the_vocabulary_and_said_once() -> None:
    known = set(vocabulary())
    for name, person in persons().items():
        said = list(person.words.values())
        assert set(said) <= known and len(set(said)) == len(said), name
        assert "{}" in person.files and person.package in SOURCES["people"].packages


def test_the_card_has_the_sources_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SOURCES, "tones")
    text = card.TEMPLATE.read_text()
    assert card.with_table(text, tuple(SOURCES)) == text
    assert all(person.who in text and person.licence in text for person in persons().values())


def test_a_card_gets_its_sources_before_what_is_measured() -> None:
    text = card.with_table("# A card\n\n## Measured\n\nfigures\n", ["festival"])
    assert text.index("## Who speaks") < text.index("| festival |") < text.index("## Measured")
    assert card.named_in(text) == ["festival"]
    again = card.with_table(text, ["people", "pico"])
    assert card.named_in(again) == ["people", "pico"]
    assert card.named_in(card.without_table(text)) == []
    assert "| festival |" not in again and again.count("## Who speaks") == 1
    with pytest.raises(ValueError, match="neither <!-- sources --> nor ## Measured"):
        card.with_table("# A card\n", ["festival"])


def test_a_recording_loses_the_silence_around_it() -> None:
    silence = 1e-4 * np.random.default_rng(1).standard_normal(8000).astype(np.float32)
    word = 0.1 * np.sin(np.arange(6400) / 5).astype(np.float32)
    kept = trimmed(np.concatenate([silence, word, silence]))
    assert 6400 <= len(kept) < 6400 + 1600
    assert np.abs(kept).max() == pytest.approx(0.3, abs=0.01)


def test_people_say_the_words_they_recorded_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = {"one": 3200, "two": 4800}
    said = {word: np.full(count, 0.25, np.float32) for word, count in lengths.items()}
    monkeypatch.setattr(people, "recordings", lambda _: said)
    found = People().say("two one two", "chess", 1.0)
    for word, span, end in zip(("two", "one", "two"), found.spans, found.word_ends_seconds,
                               strict=True):  # fmt: skip
        assert span.end == end and span.start is not None
        assert round((end - span.start) * 16_000) == lengths[word]
        assert (found.samples[round(span.start * 16_000) : round(end * 16_000)] > 8000).all()
    assert found.word_ends_seconds[-1] * 16_000 == len(found.samples)
    (slow,) = People().say("two", "chess", 0.5).spans
    assert slow.start is not None and round((slow.end - slow.start) * 16_000) == 2 * lengths["two"]
    with pytest.raises(ValueError, match="chess has never said monday"):
        People().say("one monday", "chess", 1.0)
    with pytest.raises(ValueError, match="nobody is called 'peter'"):
        People().words("peter")


def test_words_without_an_end_of_their_own_are_refused() -> None:
    with pytest.raises(ValueError, match="'one two' has 2 words"):
        speech(np.zeros(10, np.int16), 16_000, "one two", [0.5])
    with pytest.raises(ValueError, match="whose ends are"):
        speech(np.zeros(10, np.int16), 16_000, "one two", [0.5, 0.5])


def test_a_shard_follows_from_its_name() -> None:
    first = shards.spoken(Shard("tones", "train", 0), 16)
    again = shards.spoken(Shard("tones", "train", 0), 16)
    assert [(v, t, s.samples.tobytes()) for v, t, s in first] == [
        (v, t, s.samples.tobytes()) for v, t, s in again
    ]
    other = shards.spoken(Shard("tones", "train", 1), 16)
    assert [text for _, text, _ in first] != [text for _, text, _ in other]
    for _, text, said in first:
        assert len(said.word_ends_seconds) == len(text.split())
        assert said.word_ends_seconds[-1] * 16_000 == pytest.approx(len(said.samples), rel=0.01)


def test_sentences_that_are_tested_with_are_not_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shard = Shard("tones", "train", 0)
    held_out = tuple(text for _, text, _ in shards.spoken(shard, 8))
    monkeypatch.setattr(shards, "held_out", lambda _: held_out)
    assert not {text for _, text, _ in shards.spoken(shard, 16)} & set(held_out)
    for role, voice in (("seen", "low"), ("unseen", "high")):
        tested = shards.spoken(Shard("tones", role, 0), 8)
        assert {text for _, text, _ in tested} <= set(held_out)
        assert {name for name, _, _ in tested} == {voice}


def test_what_was_interrupted_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [shard.name for shard in shards.make(tmp_path, ["tones"])]
    assert names[:2] == ["tones-seen-000", "tones-unseen-000"] and len(names) == 7
    assert "0 of 7 shards are there" in capsys.readouterr().out
    lost = tmp_path / FOLDER / "tones-train-001.json"
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / FOLDER).iterdir()}
    before, audio = lost.read_bytes(), lost.with_suffix(".pcm").read_bytes()
    lost.unlink()
    shards.make(tmp_path, ["tones"])
    assert "6 of 7 shards are there" in capsys.readouterr().out
    assert lost.read_bytes() == before and lost.with_suffix(".pcm").read_bytes() == audio
    changed = {p for p, at in kept.items() if p.stat().st_mtime_ns != at}
    assert {path.stem for path in changed} == {"tones-train-001"}
    assert not list(tmp_path.rglob("*.part"))


def test_a_mixture_has_each_source_as_often_as_its_share(tmp_path: Path) -> None:
    synthesise(tmp_path, "train", ("en-us+m1",), ["hello anna", "thank you peter"] * 4, 3)
    with pytest.raises(ValueError, match="no speech of tones"):
        Mixture(tmp_path, ["tones"], ("en",))
    shards.make(tmp_path, ["tones"])
    with pytest.raises(ValueError, match="tones speaks English"):
        Mixture(tmp_path, ["tones"], ("de",))
    mixture, dice = Mixture(tmp_path, ["tones"], ("en",)), random.Random(1)
    drawn = [mixture.speaker(dice)[0] for _ in range(500)]
    tones = [sentence for sentence in drawn if sentence.voice == "low"]
    assert len(tones) == pytest.approx(0.4 * len(drawn), rel=0.2)
    shard = Corpus(tmp_path / FOLDER, tones[0].of)
    assert (mixture.audio(tones[0]) == shard.audio(tones[0])).all()
    example = ExampleMaker(mixture, 1, Surroundings(1)).make(3.0)
    assert len(example.samples) == 48_000 and example.language == "English"


def test_each_language_is_heard_as_often_whoever_else_speaks_one_of_them(tmp_path: Path) -> None:
    synthesise(tmp_path, "train", ("en-us+m1",), ["hello anna", "thank you peter"] * 4, 3)
    synthesise(tmp_path, "train-de", ("de+m1",), ["der Hund ist braun"] * 8, 3)
    shards.make(tmp_path, ["tones"])
    mixture, dice = Mixture(tmp_path, ["tones"], ("en", "de")), random.Random(1)
    drawn = [mixture.speaker(dice)[0] for _ in range(600)]
    german = [sentence for sentence in drawn if sentence.language == "de"]
    tones = [sentence for sentence in drawn if sentence.voice == "low"]
    assert len(german) == pytest.approx(300, rel=0.15)
    assert len(tones) == pytest.approx(0.4 * 300, rel=0.2)
    assert mixture.words(dice, "de") == []
    assert {len(said.words) for said in mixture.words(dice, "en")} == {1}


def test_a_source_speaks_its_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "tones", replace(SOURCES["tones"], language="de"))
    names = [shard.name for shard in shards.make(tmp_path, ["tones"])]
    assert "tones-train-001-de" in names
    said = [one for shard in opened(tmp_path, "tones", "train") for one in shard.sentences]
    assert len(said) == 24 and {one.language for one in said} == {"de"}
    assert {word for one in said for word in one.words} <= set(vocabulary(["de"]))
    synthesise(tmp_path, "train-de", ("de+m1",), ["der Hund ist braun"] * 8, 3)
    mixture = Mixture(tmp_path, ["tones"], ("de",))
    tone = mixture.words(random.Random(1), "de")[0]
    assert len(mixture.audio(tone)) == tone.length and tone.of.startswith("tones-words-")
    assert "tones" in speaking(("de", "es")) and "tones" not in speaking(("en",))


def test_two_synthesisers_of_one_process_take_no_speech_from_each_other() -> None:
    first, second = Espeak(), Espeak()
    said = [one.speak("hello anna", "en-us", 150, 50, 50) for one in (first, second, first)]
    assert all(len(one.samples) > 8_000 for one in said)


def test_words_by_themselves_are_said_slowly_and_quickly_too() -> None:
    """A tone lasts 0.1 s at speed 1."""
    found = shards.spoken(Shard("tones", "words", 0), 400)
    assert {text for _, text, _ in found} > {"tuesday", "eleven"}
    assert all(len(text.split()) == 1 for _, text, _ in found)
    lasted = [len(said.samples) / 16_000 for _, _, said in found]
    assert max(lasted) > 0.16 and min(lasted) < 0.1
    in_sentences = [
        len(said.samples) / 16_000 / len(text.split())
        for _, text, said in shards.spoken(Shard("tones", "train", 0), 400)
    ]
    assert np.mean(lasted) > 1.1 * np.mean(in_sentences)


def test_some_examples_are_words_by_themselves_and_nothing_else(tmp_path: Path) -> None:
    synthesise(tmp_path, "train", ("en-us+m1",), ["hello anna", "thank you peter"] * 4, 3)
    shards.make(tmp_path, ["tones"])
    mixture, alone = Mixture(tmp_path, ["tones"], ("en",)), 0
    maker = ExampleMaker(mixture, 1)
    for _ in range(400):
        _, _, ends, starts = maker._join(mixture.speaker(maker._dice), 6.0)
        # Within a sentence the end of a word is the start of the next; a pause is longer than this.
        alone += all(start > end for start, end in zip(starts[1:], ends, strict=False))
    assert alone == pytest.approx(0.15 * 400, rel=0.4)


def test_an_unknown_source_is_refused_with_those_there_are() -> None:
    assert shards.chosen("people, flite") == ("people", "flite") and shards.chosen("") == ()
    with pytest.raises(ValueError, match="no source 'alexa'; there are: espeak-ng, flite"):
        shards.chosen("flite,alexa")


@pytest.mark.parametrize(("given", "asked"), [([], []), (["SOURCES="], ["--sources ''"] * 2)])
def test_make_trains_with_all_sources_unless_some_are_named(
    given: list[str], asked: list[str]
) -> None:
    command = ["make", "--dry-run", "--no-print-directory", "train-demo", *given]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert re.findall(r"--sources \S+", run.stdout) == asked


@pytest.mark.skipif(
    not all((packages.FOLDER / name).is_dir() for name in ("flite", "festival")),
    reason="their packages are downloaded by make train-demo",
)
def test_synthesisers_say_every_word_and_tell_its_end() -> None:
    text = "the train comes at eighteen"
    for name in ("flite", "festival"):
        for voice in dict.fromkeys(SOURCES[name].voices):
            said = SOURCES[name].engine().say(text, voice, 1.0)
            assert len(said.word_ends_seconds) == 5
            assert said.word_ends_seconds[-1] <= len(said.samples) / said.rate
            assert np.abs(said.samples).max() > 3000
