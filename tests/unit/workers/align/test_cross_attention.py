"""Times of words from a decoder's attention equal transformers' for the same attention."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import WhisperForConditionalGeneration
from transformers.models.whisper.generation_whisper import _dynamic_time_warping

from auricle.annotation.alignment import first_columns, word_times
from auricle.checkpoints.alignment import alignment_heads
from auricle.checkpoints.files import open_checkpoint
from auricle.core.errors import BadRequest, CheckpointError
from auricle.protocol.annotation import AlignRequest
from auricle.transcript.words import pieces
from auricle.workers.align.cross_attention import CrossAttentionAligner
from auricle.workers.align.passes import aligner_for
from auricle.workers.align.scripts import Script, prompt_for
from auricle.workers.align.utterances import Utterance
from auricle_testing import recordings
from auricle_testing.checkpoints.whisper import Stock, random_english_whisper, random_whisper

pytestmark = pytest.mark.unit
TEXTS = ("The dog, and the red apple.", "Monday", "ten green trees on a hill; seven birds")
SECONDS = (4.0, 1.3, 11.02)


class Case:
    """A random checkpoint, loaded by auricle and by transformers."""

    def __init__(self, path: Path, stock: Stock) -> None:
        self.path, self.stock = path, stock
        checkpoint = open_checkpoint(path)
        self.prompt = prompt_for(checkpoint)
        self.aligner = aligner_for(checkpoint, "float32", "cpu", threads=1)

    def script(self, text: str, language: str = "English") -> Script:
        split = pieces(text, language)
        words, texts = tuple(p.word for p in split), tuple(p.text for p in split)
        request = AlignRequest("s", "t", (), words, 0, texts=texts, language=language)
        return self.prompt.script(request)

    def utterance(self, text: str, seconds: float) -> Utterance:
        pcm = recordings.samples("market")[: int(seconds * recordings.SAMPLE_RATE)]
        script = self.script(text)
        heard = self.stock.embeddings(pcm)
        return Utterance(heard, script.ids, script.lead, len(pcm) // 16)


@pytest.fixture(scope="module", params=[random_whisper, random_english_whisper])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("whisper")
    return Case(path, request.param(path))


def of_transformers(path: Path, one: Utterance) -> list[int]:
    """The position of each token, by transformers' method from attentions to times."""
    model = WhisperForConditionalGeneration.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = torch.tensor([one.after])
    with torch.inference_mode():
        found = model.model.decoder(
            input_ids=ids, encoder_hidden_states=one.audio[None], output_attentions=True
        )
    outputs = SimpleNamespace(cross_attentions=[found.cross_attentions], sequences=ids)
    outputs_in = type("Outputs", (dict,), {})(vars(outputs))
    outputs_in.cross_attentions, outputs_in.sequences = [found.cross_attentions], ids
    heads = [(1, 0), (1, 1)]
    times = model._extract_token_timestamps(
        outputs_in, heads, num_frames=one.audio_ms // 10, num_input_ids=one.lead - 1
    )
    # Before the text, and the last one twice.
    return [round(float(time) / 0.02) for time in times[0, one.lead - 1 : -1]]


def test_tokens_begin_where_transformers_has_them(case: Case) -> None:
    for text, seconds in zip(TEXTS, SECONDS, strict=True):
        one = case.utterance(text, seconds)
        (found,) = case.aligner.marks([one])
        expected = of_transformers(case.path, one)
        assert len(found) == len(expected) == len(one.after) - one.lead + 1
        assert max(abs(a - b) for a, b in zip(found[1:], expected[1:], strict=True)) <= 1
        assert found == sorted(found) and expected[0] == 0


def test_a_text_begins_with_its_voice(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    one = case.utterance(TEXTS[0], 4.0)
    weights = torch.full((2, len(one.after), 200), 0.001)
    for at in range(len(one.after) - one.lead + 1):
        token = one.lead - 1 + at
        weights[:, token, 60 + 8 * at : 68 + 8 * at] = 0.1
    monkeypatch.setattr(case.aligner, "_weights", lambda _: [weights])
    (found,) = case.aligner.marks([one])
    assert found[:4] == [60, 68, 76, 84]


def test_segments_side_by_side_are_aligned_as_if_alone(case: Case) -> None:
    asked = [case.utterance(*one) for one in zip(TEXTS, SECONDS, strict=True)]
    assert case.aligner.marks(asked) == [case.aligner.marks([one])[0] for one in asked]


def test_silence_behind_the_segment_has_no_words(case: Case) -> None:
    one = case.utterance(TEXTS[0], 4.0)
    (found,) = case.aligner.marks([replace(one, audio_ms=900)])
    assert max(found) < 45
    assert case.aligner.marks([replace(one, audio_ms=0)])[0] == [0] * len(found)


def test_values_that_are_not_finite_are_an_error(case: Case) -> None:
    one = case.utterance(TEXTS[0], 4.0)
    with pytest.raises(ArithmeticError):
        case.aligner.marks([replace(one, audio=torch.full_like(one.audio, torch.nan))])


def test_a_silent_window_is_behind_the_one_with_audio(case: Case) -> None:
    own, silence = torch.zeros(250, 4), torch.arange(1500.0)[:, None].expand(-1, 4)
    joined = case.aligner.joined([own, silence])
    assert torch.equal(joined, torch.cat([own, silence[250:]]))


def test_a_text_is_read_as_the_decoder_writes_it(case: Case) -> None:
    script = case.script(TEXTS[0])
    tokenizer = case.prompt.of._tokenizer  # type: ignore[attr-defined]
    assert tokenizer.decode(list(script.ids[script.lead :])) == " " + TEXTS[0]
    before = tokenizer.decode(list(script.ids[: script.lead]), skip_special_tokens=False)
    assert before.startswith("<|startoftranscript|>") and before.endswith("<|notimestamps|>")
    assert case.prompt.tokens(1500, script) == len(script.ids)


def test_control_tokens_in_a_text_are_text(case: Case) -> None:
    script = case.script("a <|endoftext|> b")
    assert not {1084, 1085} & set(script.ids[script.lead :])


def test_what_a_script_needs_is_named(tmp_path: Path) -> None:
    random_whisper(tmp_path)
    prompt = prompt_for(open_checkpoint(tmp_path))
    with pytest.raises(BadRequest, match="0 texts for 1 words"):
        prompt.script(AlignRequest("s", "t", (), ("dog",), 0, language="English"))
    with pytest.raises(BadRequest, match="the language"):
        prompt.script(AlignRequest("s", "t", (), ("dog",), 0, texts=("dog",)))


def test_any_matrix_is_passed_as_transformers_passes_it() -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        costs = draw.standard_normal(draw.integers(1, (20, 60)))
        rows, columns = _dynamic_time_warping(costs)
        jumps = np.pad(np.diff(rows), (1, 0), constant_values=1).astype(bool)
        assert first_columns(costs) == columns[jumps].tolist()


def test_more_tokens_than_positions_share_the_last_ones() -> None:
    assert first_columns(np.zeros((5, 1))) == [0] * 5


@pytest.mark.parametrize(
    ("tokens", "texts", "expected"),
    [
        # Punctuation has a token and a part of the time, but belongs to no word.
        ([" Oh", ",", " well", "-", "known", "!"], ["Oh, ", "well-known!"], [0, 1, 2, 5]),
        ([' "', "I", "'m", '"', "."], ['"I\'m".'], [1, 3]),
        # A token of two words, and a word of two tokens.
        ([" don", "'t go"], ["don't ", "go"], [0, 1.5, 1.5, 2]),
        (["你好", "世", "界"], ["你", "好", "世", "界"], [0, 0.5, 0.5, 1, 1, 2, 2, 3]),
    ],
)
def test_words_have_the_times_of_their_tokens(
    tokens: list[str], texts: list[str], expected: list[float]
) -> None:
    lengths = [len(token.encode()) for token in tokens]
    lead = len("".join(tokens).encode()) - len("".join(texts).encode())
    found = word_times(lengths, list(range(len(tokens) + 1)), texts, lead)
    assert found == pytest.approx(expected)


def test_characters_in_several_tokens_are_whole() -> None:
    # Two tokens of a character of three bytes.
    assert word_times([2, 1, 3], [0, 1, 2, 3], ["好", "的"]) == [0, 2, 2, 3]


def test_times_never_fall_whatever_the_tokens() -> None:
    draw = np.random.default_rng(0)
    text = "Wo ist, bitte, die größte Brücke? 好的 «ты» знаешь... 3.14 — ja!"
    split = [piece.text for piece in pieces(text)]
    for _ in range(100):
        data = (" " + text).encode()
        cuts = sorted(draw.choice(np.arange(1, len(data)), draw.integers(1, 30), replace=False))
        lengths = [int(n) for n in np.diff([0, *cuts, len(data)])]
        found = word_times(lengths, np.sort(draw.random(len(lengths) + 1)), split, 1)
        assert len(found) == 2 * len(split)
        assert all(before <= after + 1e-9 for before, after in pairwise(found))


def test_the_heads_are_those_that_the_checkpoint_names(tmp_path: Path) -> None:
    assert alignment_heads(tmp_path, 4, 2) == {2: (0, 1), 3: (0, 1)}
    file = tmp_path / "generation_config.json"
    file.write_text(json.dumps({"alignment_heads": [[3, 1], [1, 0], [3, 0]]}))
    assert alignment_heads(tmp_path, 4, 2) == {1: (0,), 3: (0, 1)}
    file.write_text(json.dumps({"alignment_heads": [[4, 0]]}))
    with pytest.raises(CheckpointError, match="head 0 of layer 4, but the decoder has 4 layers"):
        alignment_heads(tmp_path, 4, 2)
    file.write_text(json.dumps({"alignment_heads": [3]}))
    with pytest.raises(CheckpointError, match="not a list of layers and heads"):
        alignment_heads(tmp_path, 4, 2)


def test_named_heads_are_used(tmp_path: Path) -> None:
    stock = random_whisper(tmp_path)
    file = tmp_path / "generation_config.json"
    config = json.loads(file.read_text())
    upper = Case(tmp_path, stock)
    one = upper.utterance(TEXTS[2], 11.0)
    file.write_text(json.dumps(config | {"alignment_heads": [[0, 1]]}))
    lower = Case(tmp_path, stock)
    assert isinstance(lower.aligner, CrossAttentionAligner)
    assert lower.aligner.marks([one]) != upper.aligner.marks([one])
