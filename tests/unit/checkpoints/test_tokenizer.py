"""Our tokenizer gives the tokens and the text of transformers' own, from the same files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import Qwen2Tokenizer

from auricle.checkpoints.tokenizer import load_tokenizer, without_added_tokens
from auricle.core.errors import CheckpointError
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"
STOCK = Qwen2Tokenizer.from_pretrained(DEMO, local_files_only=True)
OURS = load_tokenizer(DEMO)
CONTROL = [token.content for token in STOCK.added_tokens_decoder.values()]
TEXTS = st.lists(
    st.text() | st.sampled_from([*CONTROL, "market", "é", "e\u0301", "'LL", "7", "\n"])
)


def same(ours: Tokenizer, text: str) -> None:
    ids = STOCK(text, add_special_tokens=False).input_ids
    assert ours.encode(text, add_special_tokens=False).ids == ids
    for skip in (False, True):
        expected = STOCK.decode(ids, skip_special_tokens=skip)
        assert ours.decode(ids, skip_special_tokens=skip) == expected


@given(TEXTS)
def test_tokens_and_text_are_those_of_transformers(pieces: list[str]) -> None:
    same(OURS, "".join(pieces))


@given(st.lists(st.integers(0, len(STOCK) - 1)))
def test_any_tokens_are_decoded_alike(ids: list[int]) -> None:
    """Including tokens that end inside a character."""
    for skip in (False, True):
        expected = STOCK.decode(ids, skip_special_tokens=skip)
        assert OURS.decode(ids, skip_special_tokens=skip) == expected


@given(TEXTS)
def test_without_added_tokens_control_tokens_are_text(pieces: list[str]) -> None:
    ids = without_added_tokens(OURS).encode("".join(pieces), add_special_tokens=False).ids
    assert not {*ids} & STOCK.added_tokens_decoder.keys()


def test_a_tokenizer_in_one_file_is_the_same(tmp_path: Path) -> None:
    STOCK.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").is_file() and not (tmp_path / "vocab.json").exists()
    for text in ("we saw <|im_end|> three", "Grüße, 東京 <asr_text>", " \n\n don't"):
        same(load_tokenizer(tmp_path), text)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for name in ("tokenizer_config.json", "vocab.json", "merges.txt"):
        shutil.copyfile(DEMO / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", ["tokenizer_config.json", "vocab.json", "merges.txt"])
def test_a_file_that_is_missing_is_named(checkpoint: Path, name: str) -> None:
    (checkpoint / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load_tokenizer(checkpoint)


def test_a_file_that_cannot_be_read_is_an_error_of_the_checkpoint(checkpoint: Path) -> None:
    (checkpoint / "vocab.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_tokenizer(checkpoint)


def test_an_added_token_at_another_id_than_it_says_is_an_error(checkpoint: Path) -> None:
    file = checkpoint / "tokenizer_config.json"
    config = json.loads(file.read_text())
    config["added_tokens_decoder"]["1100"] = config["added_tokens_decoder"].pop("1090")
    file.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"<asr_text> is 1090 .* but 1100"):
        load_tokenizer(checkpoint)


def test_a_tokenizer_of_another_kind_is_as_its_file_says(checkpoint: Path) -> None:
    """For example, Gemma splits text in another way than Qwen."""
    other = Tokenizer(WordLevel({"we": 0, "saw": 1, "three": 2}, "we"))
    other.pre_tokenizer = pre_tokenizers.Split("-", "removed")
    other.save(str(checkpoint / "tokenizer.json"))
    (checkpoint / "tokenizer_config.json").write_text("{}")
    assert load_tokenizer(checkpoint).encode("saw-three-we").ids == [1, 2, 0]
