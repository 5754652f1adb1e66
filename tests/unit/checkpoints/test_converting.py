"""Converting CTranslate2's Whisper restores the transformers checkpoint that it came from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import AutoTokenizer

from auricle.checkpoints.download.convert import all_merges, convert, language_ids, special_ids
from auricle.checkpoints.download.ctranslate2 import read_variables
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import CheckpointError
from auricle_testing.checkpoints.whisper import (
    END,
    SUPPRESSED,
    random_english_whisper,
    random_whisper,
)
from tests.ctranslate2 import (
    HEADS,
    ctranslate2_folder,
    fused,
    model_bin,
    stored,
    tokenizer_json,
)

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stock")
    random_english_whisper(path)
    return path


def converted(source: Path, out: Path) -> Path:
    out.mkdir()
    convert(source, out)
    return out


@pytest.mark.parametrize(
    ("kind", "dtype", "error"),
    [
        ("float32", "float32", 0.0),
        ("float16", "float16", 5e-4),
        ("bfloat16", "float32", 8e-3),
        ("int8", "float32", 5e-3),
    ],
)
def test_every_tensor_is_the_published_one(
    stock: Path, tmp_path: Path, kind: str, dtype: str, error: float
) -> None:
    source = ctranslate2_folder(stock, tmp_path / "ct2", kind)
    found = load_file(converted(source, tmp_path / "hf") / "model.safetensors")
    published = load_file(stock / "model.safetensors")
    assert found.keys() == published.keys()
    assert {str(tensor.dtype) for tensor in found.values()} == {dtype}
    for name, tensor in published.items():
        np.testing.assert_allclose(
            found[name].astype(np.float32), tensor, rtol=0, atol=error * np.abs(tensor).max()
        )


def test_float16_is_kept_bit_by_bit(stock: Path, tmp_path: Path) -> None:
    source = ctranslate2_folder(stock, tmp_path / "ct2", "float16")
    found = load_file(converted(source, tmp_path / "hf") / "model.safetensors")
    for name, tensor in load_file(stock / "model.safetensors").items():
        assert np.array_equal(found[name], tensor.astype(np.float16)), name


def test_sizes_and_tokens_are_the_published_ones(stock: Path, tmp_path: Path) -> None:
    out = converted(ctranslate2_folder(stock, tmp_path / "ct2"), tmp_path / "hf")
    config = json.loads((out / "config.json").read_text())
    published = json.loads((stock / "config.json").read_text())
    assert config | published == config
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation["suppress_tokens"] == list(SUPPRESSED)
    assert generation["begin_suppress_tokens"] == [220, END]
    assert generation["no_timestamps_token_id"] == END + 7
    assert generation["alignment_heads"] == HEADS
    assert generation["is_multilingual"] is False and "lang_to_id" not in generation


def test_it_is_served_like_the_published_one(stock: Path, tmp_path: Path) -> None:
    out = converted(ctranslate2_folder(stock, tmp_path / "ct2"), tmp_path / "hf")
    found, published = open_checkpoint(out), open_checkpoint(stock)
    assert (found.architecture, found.geometry) == (published.architecture, published.geometry)
    PromptFormat(found)
    tokenizer, before = (AutoTokenizer.from_pretrained(path) for path in (out, stock))
    text = " the red apples are in the kitchen"
    ids = before.encode(text, add_special_tokens=False)
    assert tokenizer.encode(text, add_special_tokens=False) == ids


def test_timestamps_are_added_behind_the_control_tokens(stock: Path, tmp_path: Path) -> None:
    out = converted(ctranslate2_folder(stock, tmp_path / "ct2"), tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.convert_tokens_to_ids(["<|0.00|>", "<|0.02|>"]) == [END + 8, END + 9]
    assert len(tokenizer) == 1152


def test_a_multilingual_one_names_its_languages_and_tasks(tmp_path: Path) -> None:
    random_whisper(tmp_path / "stock")
    source = ctranslate2_folder(tmp_path / "stock", tmp_path / "ct2")
    out = converted(source, tmp_path / "hf")
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation["is_multilingual"] is True
    assert generation["lang_to_id"] == {"<|en|>": END + 2, "<|de|>": END + 3}
    assert generation["task_to_id"] == {"translate": END + 4, "transcribe": END + 5}


def test_without_alignment_heads_those_of_the_second_half_stand_in(
    stock: Path, tmp_path: Path
) -> None:
    source = ctranslate2_folder(stock, tmp_path / "ct2")
    config = json.loads((source / "config.json").read_text())
    del config["alignment_heads"]
    (source / "config.json").write_text(json.dumps(config))
    out = converted(source, tmp_path / "hf")
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation["alignment_heads"] == [[1, 0], [1, 1]]


def test_a_missing_first_merge_is_restored(stock: Path) -> None:
    model = tokenizer_json(stock)["model"]
    assert all_merges(model["vocab"], model["merges"][1:]) == model["merges"]
    pairs = [merge.split(" ") for merge in model["merges"]]
    assert all_merges(model["vocab"], pairs[1:]) == pairs


def test_merges_that_are_all_there_stay_as_they_are(stock: Path) -> None:
    model = tokenizer_json(stock)["model"]
    assert all_merges(model["vocab"], model["merges"]) == model["merges"]


def test_control_tokens_are_no_languages(stock: Path) -> None:
    assert language_ids(special_ids(tokenizer_json(stock))) == {
        "<|en|>": END + 2,
        "<|de|>": END + 3,
    }


def test_a_tokenizer_without_control_tokens_is_refused(stock: Path, tmp_path: Path) -> None:
    source = ctranslate2_folder(stock, tmp_path / "ct2")
    tokenizer = tokenizer_json(stock)
    (source / "tokenizer.json").write_text(json.dumps({**tokenizer, "added_tokens": []}))
    with pytest.raises(CheckpointError, match=r"lacks the token <\|notimestamps\|>"):
        converted(source, tmp_path / "hf")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[: len(data) // 2], "cut short"),
        (lambda data: b"", "cannot mmap an empty file"),
        (lambda data: b"\x05" + data[1:], "its format is 5, but 6 is read"),
        (lambda data: data + b"more", "4 bytes follow its end"),
        (lambda data: b"PK\x03\x04" + bytes(100), "its format is"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    stock: Path, tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(change(model_bin(stored(fused(stock), "float16"))))
    with pytest.raises(CheckpointError, match=said):
        read_variables(path)


def test_another_model_is_refused(stock: Path, tmp_path: Path) -> None:
    source = ctranslate2_folder(stock, tmp_path / "ct2")
    data = model_bin(stored(fused(stock), "float16"), spec="Wav2Vec2Spec")
    (source / "model.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match="holds a Wav2Vec2Spec"):
        converted(source, tmp_path / "hf")


def test_a_missing_weight_is_named(stock: Path, tmp_path: Path) -> None:
    source = ctranslate2_folder(stock, tmp_path / "ct2")
    variables = stored(fused(stock), "float16")
    del variables["decoder/layer_1/ffn/linear_1/weight"]
    (source / "model.bin").write_bytes(model_bin(variables))
    with pytest.raises(CheckpointError, match="lacks `decoder/layer_1/ffn/linear_1/weight`"):
        converted(source, tmp_path / "hf")
