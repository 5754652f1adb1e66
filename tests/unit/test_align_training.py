"""What the demo aligner is taught and measured by: truth, targets, repair, format."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from auricle.checkpoint.files import open_checkpoint
from models.training.align.decode import word_times
from models.training.align.evaluate import Figures, between, differences, write_card
from models.training.align.examples import Clip, ClipMaker, Spoken
from models.training.align.export import export
from models.training.align.geometry import BINS, TEXT_LAYERS, aligner_config
from models.training.align.hearing import Hearing
from models.training.align.labels import UNKNOWN, frame_labels, stamp_labels
from models.training.align.lessons import Lessons
from models.training.align.losses import BIN_WIDTH, LISTENED
from models.training.align.model import Aligner
from models.training.align.prompts import TIMESTAMP, prompt_ids
from models.training.align.reference import AlignerReference
from models.training.align.shelf import Heard, Shelf
from models.training.align.targets import bin_of, frame_of, frame_seconds, prompt_times, soft_bins
from models.training.align.trainer import Trainer
from models.training.corpus import SAMPLE_RATE, Corpus, synthesise
from models.training.export import write_processor_files
from models.training.model import audio_length
from models.training.sentences import vocabulary
from models.training.spans import Phoneme, Span, spans
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

pytestmark = pytest.mark.unit
DEMO = Path(__file__).parents[2] / "models" / "demo"
ALIGNER = DEMO.with_name("demo-aligner")
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
    """espeak-ng gives "in the" one event: In D@."""
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
        # Speech is where the spans are: before the first and after the last there is next to none.
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


def test_some_words_are_misheard_and_keep_their_times(corpus: Corpus) -> None:
    clips = [ClipMaker(corpus, seed=seed).clip(15.0) for seed in range(40)]
    wrong = [clip for clip in clips if clip.words != clip.said]
    assert 3 <= len(wrong) <= 25
    for clip in wrong:
        assert {w.span for w in clip.words} <= {w.span for w in clip.said}


def test_the_prompt_is_the_published_one(checkpoint: Path) -> None:
    tokenizer = AlignerReference(checkpoint).tokenizer
    text = "<|audio_start|><|audio_pad|><|audio_pad|><|audio_end|>cat<timestamp><timestamp>dog"
    expected = tokenizer(f"{text}<timestamp><timestamp>").input_ids
    assert prompt_ids(tokenizer, ["cat", "dog"], 2) == expected


def test_every_word_of_the_vocabulary_is_one_token(checkpoint: Path) -> None:
    tokenizer = AlignerReference(checkpoint).tokenizer
    assert {len(tokenizer(word).input_ids) for word in vocabulary()} == {1}


def test_the_checkpoint_is_one_that_a_server_opens(checkpoint: Path) -> None:
    opened = open_checkpoint(checkpoint)
    assert opened.format == "original"
    assert opened.geometry.text_layers == TEXT_LAYERS
    assert (checkpoint / "model.safetensors").stat().st_size <= 12_000_000


def test_a_card_tells_the_size_of_its_own_weights(checkpoint: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(checkpoint, work)
    model = Aligner(json.loads((work / "config.json").read_text()))
    torch.save({"model": model.state_dict()}, work / "checkpoint.pt")
    export(work, tmp_path / "published")
    card = (tmp_path / "published/README.md").read_text()
    assert "- 5.2 million parameters, bfloat16: an audio encoder of 6 layers (" in card
    assert "$" not in card


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


def test_a_head_start_keeps_what_the_recogniser_computes() -> None:
    """The layers that it has not got change nothing before they are trained."""
    config = aligner_config(json.loads((DEMO / "config.json").read_text()), 1091)
    model = Aligner(config).eval()
    model.begin_from(DEMO / "model.safetensors")
    with torch.inference_mode():
        audio = model.embed_audio([torch.randn(128, 150)])
        ids = torch.tensor([[1087, *[1089] * len(audio), 1088, 5, 6]])
        layers = model(audio, ids, torch.ones_like(ids)).layers
    assert torch.allclose(model.norm(layers[3]), layers[-1], atol=1e-5)
    assert not torch.allclose(layers[2], layers[3], atol=1e-2)


def test_lessons_are_about_what_the_whole_model_computes(checkpoint: Path) -> None:
    """The lower layers alone give what they give in a pass of all, and lessons train them."""
    model = AlignerReference(checkpoint).model
    audio = torch.randn(208, model.config.text_config.hidden_size)
    lessons = Lessons(model, audio, seed=2)
    clips, embeddings = lessons.make(40.0)
    assert sum(map(len, embeddings)) >= 39 * 13
    assert all(clip.words for clip in clips)
    ids = torch.tensor([[1087, *[1089] * len(embeddings[0]), 1088, 300, 1091, 1091]])
    mask = torch.ones_like(ids)
    lower = lessons.hidden(embeddings[0], ids, mask)
    whole = model(embeddings[0], ids, mask).layers[LISTENED]
    assert torch.allclose(lower, whole, atol=1e-5)
    lower.sum().backward()
    assert model.core.model.language_model.layers[0].mlp.up_proj.weight.grad is not None


def _clip(*said: tuple[str, float | None, float | None]) -> Clip:
    words = tuple(Spoken(word, Span(start, end)) for word, start, end in said)
    return Clip(np.zeros(2 * SAMPLE_RATE, np.float32), words, words)


def test_an_embedding_is_labelled_with_the_word_that_is_said_there() -> None:
    """13 embeddings a second, each of 80 ms: "a" takes two, then there is a pause of two."""
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


def test_hearing_is_learned_from_embeddings_that_tell_the_words() -> None:
    """Losses fall to nothing where every word has embeddings of its own, whatever is unknown."""
    torch.manual_seed(0)
    clip = _clip(("a", 0.08, 0.24), ("b", 0.4, 0.56), ("a", 0.56, None), ("b", None, 0.8))
    hearing = Hearing(16, {"a": 1, "b": 2})
    audio = torch.randn(11, 16)
    optimizer = torch.optim.Adam(hearing.parameters(), lr=0.05)
    for _ in range(150):
        losses = hearing([clip], [11], audio)
        optimizer.zero_grad()
        losses["sum"].backward()
        optimizer.step()
    assert losses["right"] == 1.0
    assert losses["word"] < 0.05 and losses["before"] < 0.05 and losses["edges"] < 0.1


def test_a_shelf_gives_clips_of_similar_length_and_makes_new_ones_in_between() -> None:
    dice = random.Random(5)
    made: list[Heard] = []

    def make(lengths: tuple[float, float]) -> list[Heard]:
        length = int(13 * math.exp(dice.uniform(*map(math.log, lengths))))
        made.extend(Heard(_clip(), torch.zeros(length, 4)) for _ in range(4))
        return made[-4:]

    shelf = Shelf(make, dice, reuse=4)
    for _ in range(100):  # until there is something to choose from
        shelf.take((1.5, 30.0), 60.0, 13)
    before = len(made)
    taken = [shelf.take((1.5, 20.0), 60.0, 13) for _ in range(40)]
    assert len(made) - before == 40  # one time in four, four at a time
    for some in taken:
        lengths = [len(heard.audio) / 13 for heard in some]
        assert max(lengths) < 3 * min(lengths)
        assert len({id(heard) for heard in some}) == len(some)


def test_a_training_goes_on_where_it_was(corpus: Corpus, tmp_path: Path) -> None:
    """The encoder hears, the text model has a lesson and reads; another resumes from there."""
    write_tokenizer(tmp_path, special=(*SPECIAL_TOKENS, TIMESTAMP))
    trainer = Trainer(tmp_path, DEMO, minutes=60.0, hearing=30.0)
    maker = ClipMaker(corpus, seed=0)

    def weights() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        core = trainer.model.core
        parts = (
            core.model.multi_modal_projector.linear_2,
            core.model.language_model.norm,
            core.score,
        )
        return tuple(part.weight.detach().clone() for part in parts)

    before = weights()
    heard = trainer.train_step(maker, 31.0)
    between = weights()
    assert "edges" in heard and "bins" not in heard
    kept = load_file(DEMO / "model.safetensors")["thinker.audio_tower.conv2d1.weight"].float()
    assert torch.equal(trainer.model.core.model.audio_tower.conv2d1.weight, kept)
    assert not torch.equal(before[0], between[0]), "the encoder learns"
    assert torch.equal(before[1], between[1]) and torch.equal(before[2], between[2])
    trainer.spent = 30.5 * 60  # its time is over
    steps = [trainer.train_step(maker, 8.0) for _ in range(3)]
    after = weights()
    assert torch.equal(between[0], after[0]), "the encoder stays as it is"
    assert not torch.equal(between[2], after[2])
    assert sum("bins" in losses for losses in steps) == 2
    lesson = next(losses for losses in steps if "bins" not in losses)
    assert "look" not in lesson and "time" in lesson
    assert all(math.isfinite(loss) for some in (heard, *steps) for loss in some.values())
    trainer.save()
    again = Trainer(tmp_path, DEMO, minutes=60.0, hearing=30.0)
    again.resume()
    assert (again.step, again.heard, again.taught, again.spent) == (4, 1, 1, trainer.spent)
    assert torch.equal(again.model.core.score.weight, trainer.model.core.score.weight)
    export(tmp_path, tmp_path / "exported")
    card = tmp_path / "exported" / "README.md"
    write_card(card, {"training voices": Figures(120, 20.4, 99.6)})
    assert "| training voices | 120 | 20 | 100 |" in card.read_text()
    published = AlignerReference(tmp_path / "exported").model.core.score.weight
    assert torch.allclose(published, trainer.model.core.score.weight, atol=1e-3)


def test_an_aligner_goes_on_learning_from_its_published_weights(
    corpus: Corpus, tmp_path: Path
) -> None:
    """First the heads that were not published learn from it, and it does not learn from them."""
    write_tokenizer(tmp_path, special=(*SPECIAL_TOKENS, TIMESTAMP))
    trainer = Trainer(tmp_path, ALIGNER, minutes=60.0, hearing=30.0)
    published = AlignerReference(ALIGNER).model.state_dict()
    assert all(value.equal(published[n]) for n, value in trainer.model.state_dict().items())
    assert not trainer.hears and trainer.longest() == 31.0
    maker = ClipMaker(corpus, seed=0)
    losses = trainer.train_step(maker, 8.0)
    assert {"bins", "word", "count"} <= losses.keys()
    trainer.save()
    again = Trainer(tmp_path, ALIGNER, minutes=60.0, hearing=30.0)
    again.resume()
    assert again.step == 1
    with pytest.raises(ValueError, match="began with demo-aligner: choose another --work"):
        Trainer(tmp_path, DEMO, minutes=60.0, hearing=30.0).resume()
    assert torch.equal(again.model.core.score.weight, trainer.model.core.score.weight)


@pytest.mark.parametrize("alone", [True, False])
def test_heads_that_learn_alone_teach_the_model_nothing(
    corpus: Corpus, tmp_path: Path, alone: bool
) -> None:
    write_tokenizer(tmp_path, special=(*SPECIAL_TOKENS, TIMESTAMP))
    trainer = Trainer(tmp_path, ALIGNER, minutes=60.0, hearing=0.0)
    (heard,) = trainer._heard([ClipMaker(corpus, seed=0).clip(4.0)])
    batch = trainer.batch([heard.clip], [len(heard.audio)])
    found = trainer.model(heard.audio, batch.ids, batch.mask, seen=True)
    losses = trainer._losses(trainer.model, batch, found, heads_alone=alone)
    (losses["word"] + losses["time"]).backward()
    assert trainer._losses.word.weight.grad is not None
    learns = trainer.model.core.model.language_model.layers[0].mlp.up_proj.weight.grad is not None
    assert learns != alone


def test_differences_leave_out_what_is_unknown() -> None:
    said = [Spoken("a", Span(0.1, None)), Spoken("b", Span(0.5, 0.9))]
    found = differences([(0.2, 0.3), (0.5, 0.7)], said)
    assert found == pytest.approx([100.0, 0.0, 200.0])
    assert between([(0.0, 0.1)], [(0.1, 0.1)]) == pytest.approx([100.0, 0.0])


def test_the_card_gets_the_figures_and_keeps_the_rest(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_text("# Aligner\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
    write_card(card, {"training voices": Figures(120, 20.4, 99.6)})
    text = card.read_text()
    assert "| training voices | 120 | 20 | 100 |" in text
    assert "old" not in text and text.endswith("after\n") and text.startswith("# Aligner")
