"""The demo's languages: unchanged English data, spelling, tokens and language labels."""

from __future__ import annotations

import hashlib
import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import BadRequest
from models.training.corpus import TRAINING_SENTENCES, Corpus, jobs, planned, set_name
from models.training.examples import ExampleMaker
from models.training.export import export
from models.training.languages import codes, language
from models.training.prompts import answer_ids, language_ids
from models.training.sentences import SentenceMaker, vocabulary
from models.training.tokenizer import write_tokenizer
from models.training.train import Trainer
from models.training.voices import TRAIN_VARIANTS, UNSEEN_VARIANTS

pytestmark = pytest.mark.unit
DEMO = Path(__file__).parents[2] / "models/demo"
ALL = ("en", "de", "es")
NAMES = ("English", "German", "Spanish")
# Digests of the voices, texts and seeds of the bundled checkpoint's sets.
_DIGESTS = (
    "410063c08ebde5eb7dc8b38f8378952e3c135b4a9e0ad8a9319ed575dfc8d0da",  # pragma: allowlist secret
    "557cb92b12f38a2408a719782e5807638d188dc5c2d0abf860ac34ef0fadd1b2",  # pragma: allowlist secret
    "fbade47ef1031355e3a2c7fddf846583222548a1c7f3eb53236f8d12753da642",  # pragma: allowlist secret
)
BEFORE = dict(zip(("train", "seen", "unseen"), _DIGESTS, strict=True))
EXAMPLES_BEFORE = (
    "22880305c67b7c5ae46f2509df252fccef427bf6b0073287991b3fff93c59a0c"  # pragma: allowlist secret
)


def digest(what: object) -> str:
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def corpus(folder: Path, *languages: str) -> Corpus:
    """A silent set: 32 sentences of each language, 0.3 s per word."""
    for code in languages:
        maker = SentenceMaker(7, code)
        rows: list[Any] = []
        start = 0
        for text in [maker.sentence() for _ in range(32)]:
            count = len(text.split())
            ends = [0.3 * (at + 1) for at in range(count)]
            rows.append((start, 4800 * count, "a+voice", text, ends, [(None, None)] * count))
            start += 4800 * count
        stem = folder / set_name("train", code)
        stem.with_suffix(".json").write_text(json.dumps(rows))
        np.zeros(start, np.int16).tofile(stem.with_suffix(".pcm"))
    return Corpus(folder, "train", languages=languages)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, vocabulary(ALL), names=NAMES)
    return AutoTokenizer.from_pretrained(folder)


def test_english_alone_is_spoken_as_it_always_was() -> None:
    sets = planned("en", TRAINING_SENTENCES)
    assert {one.name: digest(jobs(one.voices, one.texts, one.seed)) for one in sets} == BEFORE


def test_examples_of_english_alone_are_those_they_always_were(tmp_path: Path) -> None:
    maker = ExampleMaker(corpus(tmp_path, "en"), seed=3)
    made = [maker.make(1 + number % 9) for number in range(60)]
    found = [[list(one.words), one.context, one.forced, len(one.samples)] for one in made]
    assert digest(found) == EXAMPLES_BEFORE
    assert {one.language for one in made} == {"English"}


def test_the_tokenizer_of_english_alone_is_the_bundled_one(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        assert (tmp_path / name).read_text() == (DEMO / name).read_text()
    assert vocabulary() == (DEMO / "vocabulary.txt").read_text().split()


def test_the_bundled_checkpoint_of_three_languages_knows_their_words() -> None:
    folder = DEMO.with_name("demo-en-de-es")
    assert open_checkpoint(folder).languages == NAMES
    assert vocabulary(ALL) == (folder / "vocabulary.txt").read_text().split()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 12_000_000


@pytest.mark.parametrize("code", codes())
def test_a_language_says_words_that_it_knows(code: str) -> None:
    known, dice = set(language(code).vocabulary), random.Random(1)
    sentences = [language(code).grammar.sentence(dice) for _ in range(2000)]
    assert {word for text in sentences for word in text.split()} <= known
    assert all(unicodedata.is_normalized("NFC", word) for word in known)
    assert len({word.lower() for word in known}) == len(known)  # case is inaudible


def test_words_are_written_as_in_a_dictionary() -> None:
    german, spanish = set(vocabulary(["de"])), set(vocabulary(["es"]))
    assert {"Hund", "Tür", "Straßenbahn", "Montag", "grün", "weiß", "zwölf"} <= german
    assert {"niño", "lámpara", "María", "lunes", "mañana", "adiós", "dónde"} <= spanish


def test_a_held_out_sentence_or_voice_is_in_no_training() -> None:
    for code in ALL:
        train, seen, unseen = planned(code, 400)
        assert not set(train.texts) & {*seen.texts, *unseen.texts}
        assert train.voices == seen.voices and not set(train.voices) & set(unseen.voices)
    assert not set(TRAIN_VARIANTS) & set(UNSEEN_VARIANTS)


def test_each_word_is_one_token(tokenizer: Any) -> None:
    for word in vocabulary(ALL):
        assert len(tokenizer(f" {word}").input_ids) == 1, word
        assert tokenizer.decode(tokenizer(f" {word}").input_ids) == f" {word}"


def test_an_answer_begins_with_the_language_it_is_in(tokenizer: Any) -> None:
    given, learned = answer_ids(tokenizer, ("der", "Käse"), forced=False, language="German")
    assert given == []
    assert tokenizer.decode(learned) == "language German<asr_text>der Käse<|im_end|>"
    given, learned = answer_ids(tokenizer, ("mañana",), forced=True, language="Spanish")
    assert given == language_ids(tokenizer, "Spanish")
    assert tokenizer.decode(learned) == "mañana<|im_end|>"
    _, learned = answer_ids(tokenizer, (), forced=False, language="German")
    assert tokenizer.decode(learned) == "language None<asr_text><|im_end|>"


def test_an_example_is_in_its_speakers_language_whatever_the_context(tmp_path: Path) -> None:
    maker = ExampleMaker(corpus(tmp_path, *ALL), seed=3)
    made = [maker.make(3.0) for _ in range(300)]
    known = {name: set(language(code).vocabulary) for name, code in zip(NAMES, ALL, strict=True)}
    assert {one.language for one in made} == set(NAMES)
    assert all(set(one.words) <= known[one.language] for one in made)
    foreign = [
        one for one in made if one.words and not set(one.context.split()) <= known[one.language]
    ]
    assert 0.02 < len(foreign) / len(made) < 0.2


def test_the_server_takes_a_checkpoints_languages_and_no_others(
    tmp_path: Path, tokenizer: Any
) -> None:
    work, output = tmp_path / "work", tmp_path / "checkpoint"
    work.mkdir()
    Trainer(work, 1, ALL).save()
    export(work, output)
    prompt = PromptFormat(open_checkpoint(output))
    assert [prompt.check_language(code) for code in ALL] == list(NAMES)
    with pytest.raises(
        BadRequest, match=r"supported: en \(English\), de \(German\), es \(Spanish\)"
    ):
        prompt.check_language("fr")
    _, learned = answer_ids(tokenizer, ("der", "Käse"), forced=False, language="German")
    assert prompt.answer(tuple(learned), None) == ("German", "der Käse")
    forced = tuple(language_ids(tokenizer, "Spanish"))
    assert prompt.tail("Spanish")[-len(forced) :] == forced
    card = output / "README.md"
    assert "make train-demo LANGS=en,de,es" in card.read_text()
    card.write_text("a card with figures")
    export(work, output)
    assert card.read_text() == "a card with figures"
