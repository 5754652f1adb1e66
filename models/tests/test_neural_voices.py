"""Neural synthesisers of `models.training.sources`: packages, models, word times."""

from __future__ import annotations

import numpy as np
import pytest

from models.training import packages
from models.training.sources import SOURCES, neural
from models.training.sources.pico import apart

pytestmark = pytest.mark.unit
ENGLISH = "the train comes at eighteen"
SAID = {
    "kokoro": ENGLISH,
    "hibari": ENGLISH,
    "piper": ENGLISH,
    "pico": ENGLISH,
    "pico-german": "mein Bruder kauft eine Flasche",
    "kokoro-spanish": "la niña compra una manzana",
}
FOLDERS = ("kokoro", "hibari-tts", "piper-joe", "pico")
THERE = all((packages.FOLDER / name).is_dir() for name in FOLDERS)


def test_words_are_where_their_phonemes_are() -> None:
    rate, unit = 1000, 100  # samples a second, samples a unit of a duration
    # Silence, "one" of two phonemes, a pause, "two" of one phoneme, silence.
    durations = np.array([[5, 1, 2, 1, 3, 4]], np.float32)
    samples = np.zeros(int(durations.sum()) * unit, np.float32)
    samples[500:800], samples[900:1200] = 0.1, 0.2
    said = neural.by_durations(samples, rate, [2, 1], durations)
    one, two = said.spans
    assert one.start is not None and two.start is not None
    heard = [said.samples[round(s.start * rate) : round(s.end * rate)] for s in (one, two)]
    assert set(np.unique(heard[0])) == {round(0.1 * 32768)} and len(heard[0]) == 300
    assert set(np.unique(heard[1])) == {round(0.2 * 32768)} and len(heard[1]) == 300
    assert said.word_ends_seconds == [two.start, len(said.samples) / rate]
    # A margin of the surrounding silence is kept.
    assert one.start == pytest.approx(0.05)
    assert len(said.samples) / rate - two.end == pytest.approx(0.05)


def test_words_that_are_said_as_one_share_their_time() -> None:
    assert apart([0.3, 0.9, 0.9, 0.9, 1.5]) == pytest.approx([0.3, 0.5, 0.7, 0.9, 1.5])
    assert apart([0.4, 0.4]) == pytest.approx([0.2, 0.4])


@pytest.mark.skipif(not THERE, reason="their packages are downloaded by make train-demo")
@pytest.mark.parametrize("name", SAID)
def test_neural_synthesisers_say_every_word_and_tell_when(name: str) -> None:
    engine, text = SOURCES[name].engine(), SAID[name]
    voice = SOURCES[name].voices[0]
    said, slower = (engine.say(text, voice, speed) for speed in (1.0, 0.5))
    assert len(said.spans) == len(said.word_ends_seconds) == 5
    assert all(a.end <= b.start for a, b in zip(said.spans, said.spans[1:], strict=False))
    assert said.word_ends_seconds[-1] == len(said.samples) / said.rate
    assert np.abs(said.samples).max() > 3000
    # One synthesiser draws its phoneme durations at random.
    assert len(slower.samples) > 1.3 * len(said.samples)
    with pytest.raises(ValueError, match="has no voice 'nobody'"):
        engine.say(text, "nobody", 1.0)
