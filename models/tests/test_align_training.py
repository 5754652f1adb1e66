"""Tests of the demo aligner's training: ground truth, targets, repair of times, format."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from auricle.checkpoints.files import open_checkpoint
from models.training.align.decode import word_times
from models.training.align.evaluate import between, differences
from models.training.align.examples import Clip, ClipMaker, Spoken
from models.training.align.geometry import BINS, TEXT_LAYERS, aligner_config
from models.training.align.labels import UNKNOWN, frame_labels, stamp_labels
from models.training.align.losses import BIN_WIDTH
from models.training.align.model import Aligner
from models.training.align.prompts import TIMESTAMP, prompt_ids
from models.training.align.reference import AlignerReference
from models.training.align.targets import bin_of, frame_of, frame_seconds, prompt_times, soft_bins
from models.training.corpus import SAMPLE_RATE, Corpus, synthesise
from models.training.export import write_processor_files
from models.training.model import audio_length
from models.training.spans import Phoneme, Span, spans
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

pytestmark = pytest.mark.unit
DEMO = Path(__file__).parents[2] / "models" / "demo"
TEXTS = [
    "the cat is in the garden",
    "there are two red",
    "my phone number is four two nine",
    "hello peter",
    "call anna in thirty minutes",
    "the bus comes at seven in the morning",
    "monday tuesday sunday",
    "where is the blue hat",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    directory = tmp_path_factory.mktemp("corpus")
    synthesise(directory, "few", ("en-us+m1",), TEXTS, seed=1)
    return Corpus(directory, "few")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained aligner in the original format."""
    path = tmp_path_factory.mktemp("aligner")
    write_tokenizer(path, special=(*SPECIAL_TOKENS, TIMESTAMP))
    write_processor_files(path)
    tokens = json.loads((path / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    stamp = next(int(number) for number, t in tokens.items() if t["content"] == TIMESTAMP)
    config = aligner_config(json.loads((DEMO / "config.json").read_text()), stamp)
    (path / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    save_file(Aligner(config).published_weights(), path / "model.safetensors")
    return path


def test_words_that_follow_each_other_share_a_boundary() -> None:
    phonemes = [Phoneme(0.01, "r"), Phoneme(0.1, "E"), Phoneme(0.25, "k"), Phoneme(0.3, "V")]
    assert spans("red cup", {0: 0.0, 4: 0.2}, phonemes, 0.5) == [Span(0.0, 0.2), Span(0.2, 0.5)]


def test_a_pause_is_in_neither_of_the_words_around_it() -> None:
    phonemes = [
        Phoneme(0.0, "r"),
        Phoneme(0.2, "_:"),
        Phoneme(0.25, "_"),
        Phoneme(0.4, "k"),
        Phoneme(0.5, "_:"),
    ]
    assert spans("red cup", {0: 0.0, 4: 0.4}, phonemes, 0.6) == [Span(0.0, 0.2), Span(0.4, 0.5)]


def test_the_said_as_one_with_the_word_before_it_begins_at_its_own_sound() -> None:
    """espeak-ng emits one event for "in the" (In D@)."""
    phonemes = [Phoneme(0.0, "I"), Phoneme(0.1, "n"), Phoneme(0.2, "D"), Phoneme(0.25, "@")]
    found = spans("in the house", {0: 0.0, 7: 0.3}, phonemes, 0.6)
    assert found == [Span(0.0, 0.2), Span(0.2, 0.3), Span(0.3, 0.6)]


def test_a_boundary_that_espeak_does_not_tell_is_unknown() -> None:
    phonemes = [Phoneme(0.0, "D"), Phoneme(0.1, "e@"), Phoneme(0.2, "A@"), Phoneme(0.3, "t")]
    found = spans("there are ten", {0: 0.0, 10: 0.3}, phonemes, 0.6)
    assert found == [Span(0.0, None), Span(None, 0.3), Span(0.3, 0.6)]


def test_spans_of_real_speech_lie_in_their_sentence_and_do_not_overlap(corpus: Corpus) -> None:
    unknown = 0
    for sentence in corpus.sentences:
        times = [t for span in sentence.spans for t in span if t is not None]
        unknown += 2 * len(sentence.spans) - len(times)
        assert len(sentence.spans) == len(sentence.words)
        assert times == sorted(times)
        assert times[0] >= 0 and times[-1] <= sentence.length / SAMPLE_RATE
        # The spans cover the speech: almost no energy is left after the last one.
        audio = corpus.audio(sentence)
        after = audio[int(times[-1] * SAMPLE_RATE) :]
        assert np.square(after).sum() < 0.01 * np.square(audio).sum()
    assert unknown == 2, "only the boundary inside 'there are' is unknown"


def test_a_time_is_its_nearest_bin() -> None:
    assert [bin_of(t) for t in (0.0, 0.039, 0.041, 0.08, 1.0, 29.99)] == [0, 0, 1, 1, 13, 375]


@pytest.mark.parametrize("seconds", [0.0, 0.5, 0.999, 1.0, 7.96, 12.34, 29.9])
def test_a_frame_is_the_embedding_in_which_a_time_lies(seconds: float) -> None:
    frame = frame_of(seconds)
    assert frame_seconds(frame) <= seconds + 1e-9 < frame_seconds(frame + 1) + 1e-9
    assert frame < audio_length(int(seconds * 100) + 1)


def test_soft_targets_are_best_at_the_nearest_bin_and_tell_where_in_it_a_time_lies() -> None:
    times = torch.tensor([1.01, 1.03, 29.9])
    soft = soft_bins(times, BINS, BIN_WIDTH)
    assert soft.argmax(-1).tolist() == [bin_of(t) for t in times.tolist()]
    assert torch.allclose(soft.sum(-1), torch.ones(3))
    mean = (soft * torch.arange(BINS)).sum(-1) * 0.08
    assert torch.allclose(mean, times, atol=2e-3)


def test_unknown_times_are_marked_in_the_order_of_the_prompt() -> None:
    times = prompt_times([Span(0.0, None), Span(None, 0.5)])
    assert [math.isnan(t) for t in times] == [False, True, True, False]


def test_bins_that_go_back_are_repaired_and_good_ones_stay() -> None:
    assert word_times(torch.tensor([1, 2, 2, 5])) == [(0.08, 0.16), (0.16, 0.4)]
    # 100 is out of order, so it takes the value of its neighbour.
    assert word_times(torch.tensor([1, 2, 100, 4, 5, 6])) == [
        (0.08, 0.16),
        (0.16, 0.32),
        (0.4, 0.48),
    ]
    assert word_times(torch.tensor([], dtype=torch.long)) == []


def test_repaired_times_never_go_back() -> None:
    dice = torch.Generator().manual_seed(3)
    for _ in range(50):
        times = word_times(torch.randint(0, BINS, (24,), generator=dice))
        flat = [t for pair in times for t in pair]
        assert flat == sorted(flat)


def test_clips_have_their_words_where_they_are_said(corpus: Corpus) -> None:
    """Speech is louder inside the words than in the pauses between them."""
    maker = ClipMaker(corpus, seed=4)
    for _ in range(5):
        clip = maker.clip(12.0, whole=True)
        inside = np.zeros(len(clip.samples), bool)
        last = 0.0
        for spoken in clip.said:
            start, end = spoken.span
            assert (start if start is not None else last) >= last - 1e-6
            last = end if end is not None else (start or last)
            begin = last if start is None else start
            inside[int(begin * SAMPLE_RATE) : int((end or begin) * SAMPLE_RATE)] = True
        assert last <= len(clip.samples) / SAMPLE_RATE + 1e-6
        loud = np.square(clip.samples[inside]).mean()
        assert loud > 2 * np.square(clip.samples[~inside]).mean()


def test_a_clip_ends_when_asked_and_a_word_cut_there_ends_with_it(corpus: Corpus) -> None:
    for seed in range(20):
        clip = ClipMaker(corpus, seed=seed).clip(3.0)
        assert len(clip.samples) <= 3.0 * SAMPLE_RATE
        for spoken in clip.said:
            assert (spoken.span.end or 0.0) <= 3.0


def test_the_prompt_is_the_published_one(checkpoint: Path) -> None:
    tokenizer = AlignerReference(checkpoint).tokenizer
    text = "<|audio_start|><|audio_pad|><|audio_pad|><|audio_end|>cat<timestamp><timestamp>dog"
    expected = tokenizer(f"{text}<timestamp><timestamp>").input_ids
    assert prompt_ids(tokenizer, ["cat", "dog"], 2) == expected


def test_the_checkpoint_is_one_that_a_server_opens(checkpoint: Path) -> None:
    opened = open_checkpoint(checkpoint)
    assert opened.format == "original"
    assert opened.geometry.text_layers == TEXT_LAYERS
    assert (checkpoint / "model.safetensors").stat().st_size <= 12_000_000


def test_the_reference_equals_transformers_model_called_as_a_whole(checkpoint: Path) -> None:
    reference = AlignerReference(checkpoint)
    samples = np.random.default_rng(0).normal(0, 0.1, 2 * SAMPLE_RATE).astype(np.float32)
    words = ["cat", "dog", "cat"]
    features = reference._extractor(
        samples, sampling_rate=SAMPLE_RATE, padding=True, truncation=False, return_tensors="pt"
    ).input_features
    ids = torch.tensor([prompt_ids(reference.tokenizer, words, 26)])
    with torch.inference_mode():
        logits = reference.model.core(
            input_ids=ids,
            input_features=features,
            input_features_mask=torch.ones(1, features.shape[-1], dtype=torch.long),
            attention_mask=torch.ones_like(ids),
        ).logits
    assert logits.shape[-1] == BINS
    expected = logits[ids == reference.model.timestamp].argmax(-1)
    assert reference.bins(samples, words).tolist() == expected.tolist()


def _clip(*said: tuple[str, float | None, float | None]) -> Clip:
    words = tuple(Spoken(word, Span(start, end)) for word, start, end in said)
    return Clip(np.zeros(2 * SAMPLE_RATE, np.float32), words, words)


def test_an_embedding_is_labelled_with_the_word_that_is_said_there() -> None:
    """There are 13 embeddings a second, 80 ms each: "a" takes two, and a pause of two follows."""
    clip = _clip(("a", 0.08, 0.24), ("b", 0.4, 0.56))
    labels = frame_labels(clip, 9, {"a": 1, "b": 2})
    assert labels.word.tolist() == [0, 1, 1, 0, 0, 2, 2, 0, 0]
    assert labels.before.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert labels.begun.tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert labels.since[1:3].tolist() == pytest.approx([0.04, 0.12])
    assert labels.left[1:3].tolist() == pytest.approx([0.12, 0.04])


def test_nothing_is_asked_where_one_of_two_words_is_said_and_none_knows_which() -> None:
    clip = _clip(("there", 0.08, None), ("are", None, 0.4), ("a", 0.4, 0.48))
    labels = frame_labels(clip, 7, {"a": 1, "there": 2, "are": 3})
    assert labels.word.tolist() == [0, *[UNKNOWN] * 4, 1, 0]
    assert labels.before.tolist() == [0, 0, 0, 0, 0, 3, 1]


def test_both_stamps_of_a_word_are_labelled_alike() -> None:
    labels = stamp_labels(_clip(("b", 0.0, 0.1), ("a", 0.1, 0.2)), {"a": 1, "b": 2})
    assert labels.word.tolist() == [2, 2, 1, 1]
    assert labels.before.tolist() == [0, 0, 2, 2]
    assert labels.begun.tolist() == [1, 1, 2, 2]


def test_differences_leave_out_what_is_unknown() -> None:
    said = [Spoken("a", Span(0.1, None)), Spoken("b", Span(0.5, 0.9))]
    found = differences([(0.2, 0.3), (0.5, 0.7)], said)
    assert found == pytest.approx([100.0, 0.0, 200.0])
    assert between([(0.0, 0.1)], [(0.1, 0.1)]) == pytest.approx([100.0, 0.0])
