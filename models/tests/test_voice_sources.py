"""`models.training.sources` and `shards`: training and held-out voices, reproducible shards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.training import packages, shards
from models.training.augment.surroundings import Surroundings
from models.training.corpus import Corpus, synthesise
from models.training.espeak import Speech
from models.training.examples import ExampleMaker
from models.training.mixture import Mixture
from models.training.sentences import vocabulary
from models.training.shards import FOLDER, Shard, opened
from models.training.sources import SOURCES, engine, people, speaking
from models.training.sources.engines import speech
from models.training.sources.people import People, persons, trimmed
from models.training.voices import UNSEEN_VARIANTS

pytestmark = pytest.mark.unit


class Tones:
    """A note for each word; voices are `low` and `high`."""

    def words(self, voice: str) -> None:
        """The voice can say any word."""

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
    variants = {voice.partition("+")[2] for voice in SOURCES["espeak-ng"].voices}
    assert not variants & set(UNSEEN_VARIANTS)
    assert any(person.held_out for person in persons().values())


def test_what_people_have_said_is_in_the_vocabulary_and_said_once() -> None:
    known = set(vocabulary())
    for name, person in persons().items():
        said = list(person.words.values())
        assert set(said) <= known and len(set(said)) == len(said), name
        assert "{}" in person.files and person.package in SOURCES["people"].packages


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
    with pytest.raises(ValueError, match="unknown voice 'peter'"):
        People().words("peter")


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
        # Words of a sentence are contiguous; pauses separate words by themselves.
        alone += all(start > end for start, end in zip(starts[1:], ends, strict=False))
    assert alone == pytest.approx(0.15 * 400, rel=0.4)


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
