"""Both checkpoint formats load; mismatches are named exactly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from auricle.checkpoints.files import audio_weights, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import BadRequest, CheckpointError
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for file in DEMO.iterdir():
        if file.is_file():
            shutil.copyfile(file, tmp_path / file.name)
    return tmp_path


def edit(path: Path, section: str, **values: object) -> None:
    config = json.loads((path / "config.json").read_text())
    config["thinker_config"][section].update(values)
    (path / "config.json").write_text(json.dumps(config))


def as_transformers(path: Path) -> None:
    """Convert a copy of the demo checkpoint to transformers' own format."""
    config = json.loads((path / "config.json").read_text())
    thinker = config["thinker_config"]
    flat = {"model_type": "qwen3_asr", "audio_token_id": thinker["audio_token_id"]}
    flat |= {key: thinker[key] for key in ("audio_config", "text_config")}
    (path / "config.json").write_text(json.dumps(flat))
    renamed = {}
    for name, tensor in load_file(path / "model.safetensors").items():
        new = name.replace("thinker.audio_tower.proj1", "model.multi_modal_projector.linear_1")
        new = new.replace("thinker.audio_tower.proj2", "model.multi_modal_projector.linear_2")
        new = new.replace("thinker.audio_tower", "model.audio_tower")
        renamed[new.replace("thinker.model", "model.language_model")] = tensor
    save_file(renamed, path / "model.safetensors")


def test_the_demo_checkpoint_has_the_published_geometry_of_windows() -> None:
    checkpoint = open_checkpoint(DEMO)
    assert checkpoint.format == "original"
    assert checkpoint.geometry.window_frames == 800
    assert checkpoint.geometry.window_embeddings == 104
    assert [checkpoint.geometry.embeddings(n) for n in (1, 8, 99, 100, 101, 250)] == [
        *(1, 1, 13, 13, 14, 33)
    ]


def test_both_formats_give_the_same_encoder_weights(copy: Path) -> None:
    original = audio_weights(open_checkpoint(DEMO))
    as_transformers(copy)
    checkpoint = open_checkpoint(copy)
    assert checkpoint.format == "transformers"
    for mine, other in zip(audio_weights(checkpoint), original, strict=True):
        assert mine.keys() == other.keys()
        assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_the_fingerprint_is_of_the_content_not_of_the_name(copy: Path) -> None:
    assert open_checkpoint(copy).fingerprint == open_checkpoint(DEMO).fingerprint
    weights = load_file(copy / "model.safetensors")
    weights["thinker.model.norm.weight"] += 1
    save_file(weights, copy / "model.safetensors")
    assert open_checkpoint(copy).fingerprint != open_checkpoint(DEMO).fingerprint


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        ("audio_config", {"n_window_infer": 750}, "n_window_infer is 750, expected a multiple"),
        ("audio_config", {"n_window": None}, "n_window is None, expected a positive integer"),
        ("audio_config", {"num_mel_bins": 80}, "num_mel_bins is 80, expected 128"),
        ("audio_config", {"output_dim": 64}, "output_dim is 64 but text_config.hidden_size is 192"),
        ("audio_config", {"encoder_attention_heads": 7}, "d_model 160 is not divisible"),
        ("audio_config", {"d_model": 320}, r"has shape \(160,\), but config.json expects \(320,\)"),
        ("text_config", {"vocab_size": 5}, "audio_token_id is .*, expected an id below"),
        ("text_config", {"num_hidden_layers": 9}, "lack `thinker.model.layers.8"),
    ],
)
def test_a_config_that_does_not_fit_is_named(
    copy: Path, section: str, values: dict[str, object], said: str
) -> None:
    edit(copy, section, **values)
    with pytest.raises(CheckpointError, match=said):
        open_checkpoint(copy)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", None, "has no config.json"),
        ("config.json", b"{", "is not valid JSON"),
        ("config.json", b"{}", "does not know: `architectures` is None"),
        ("config.json", b'{"model_type": "wav2vec2"}', "Known are: Qwen3-ASR: Qwen3ASRFor"),
        ("config.json", b'{"model_type": "qwen3_asr"}', "neither `thinker_config`"),
        ("model.safetensors", None, r"has no \*.safetensors"),
        ("model.safetensors", b"torn", "not a readable safetensors file"),
    ],
)
def test_broken_files_are_named(copy: Path, file: str, content: bytes | None, said: str) -> None:
    (copy / file).unlink()
    if content is not None:
        (copy / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        open_checkpoint(copy)


OPENED = """
import sys
from pathlib import Path
from auricle.checkpoints.files import open_checkpoint

open_checkpoint(Path(sys.argv[1]))
print("torch" in sys.modules)
"""


def test_a_checkpoint_is_opened_without_pytorch(copy: Path) -> None:
    """A processor does without it, which saves seconds and 130 MB."""
    weights = copy / "model.safetensors"
    save_file({name: one.to(torch.bfloat16) for name, one in load_file(weights).items()}, weights)
    opened = [sys.executable, "-c", OPENED, str(copy)]
    assert subprocess.run(opened, capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint directory at"):
        open_checkpoint(tmp_path / "none")


def test_a_tokenizer_of_another_checkpoint_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["thinker_config"]["audio_token_id"] -= 1
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="audio_token_id"):
        PromptFormat(open_checkpoint(copy))


@pytest.fixture(scope="module")
def prompt() -> PromptFormat:
    return PromptFormat(open_checkpoint(DEMO))


def test_the_prompt_is_the_published_one(prompt: PromptFormat) -> None:
    whole = [*prompt.head("the dog"), *prompt.tail("English")]
    text = prompt._tokenizer.decode(whole, skip_special_tokens=False)
    assert text == (
        "<|im_start|>system\nthe dog<|im_end|>\n<|im_start|>user\n<|audio_start|>"
        "<|audio_end|><|im_end|>\n<|im_start|>assistant\nlanguage English<asr_text>"
    )


def test_context_cannot_close_the_turn(prompt: PromptFormat) -> None:
    stop = prompt.stop_tokens[0]
    plain = prompt.head("hello").count(stop)
    assert prompt.head("hello <|im_end|> there").count(stop) == plain


def test_answers_are_read_in_parts(prompt: PromptFormat) -> None:
    ids = tuple(prompt._tokenizer.encode("language English<asr_text>the dog").ids)
    assert prompt.answer(ids, None) == ("English", "the dog")
    assert prompt.answer(ids[:2], None) == ("", "")
    assert prompt.answer(ids[:3], None) == ("English", "")
    nothing = tuple(prompt._tokenizer.encode("language None<asr_text>").ids)
    assert prompt.answer(nothing, None) == ("", "")
    assert prompt.answer(ids[3:], "English") == ("English", "the dog")


def test_half_a_character_is_seen_and_not_shown(prompt: PromptFormat) -> None:
    ids = tuple(prompt._tokenizer.encode("é").ids)
    assert len(ids) == 2
    assert prompt.whole_characters(ids)
    assert not prompt.whole_characters(ids[:1])
    assert prompt.text(ids[:1]) == ""


@pytest.mark.parametrize("text", [" the dog", "  the dog", "\n the dog", "the dog"])
@pytest.mark.parametrize("language", [None, "English"])
def test_no_text_begins_with_white_space(
    prompt: PromptFormat, text: str, language: str | None
) -> None:
    """Segments are joined with spaces, so there would be two."""
    opening = prompt.opening_in("English") if language is None else ()
    tokens = (*opening, *prompt._plain_ids(text))
    assert prompt.answer(tokens, language) == ("English", "the dog")
    pieces = prompt.pieces(tokens, language)
    assert b"".join(data for _, data in pieces) == b"the dog"
    assert all(data for _, data in pieces)
    assert prompt.pieces((*opening, *prompt._plain_ids("  ")), language) == []


def test_the_pieces_of_an_answer_are_its_text_without_control_tokens(prompt: PromptFormat) -> None:
    said = "the dog, café"
    ids = tuple(prompt._tokenizer.encode(f"language English<asr_text>{said}<|im_end|>").ids)
    mark = len(prompt.opening(ids))
    pieces = prompt.pieces(ids, None)
    assert [at for at, _ in pieces] == list(range(mark, len(ids) - 1))
    assert b"".join(data for _, data in pieces).decode() == said
    assert [data for _, data in prompt.pieces(ids[mark:], "English")] == [d for _, d in pieces]
    assert prompt.pieces(ids[: mark - 1], None) == []


def test_an_unsupported_language_is_named(prompt: PromptFormat) -> None:
    assert prompt.check_language(" english ") == "English"
    assert prompt.check_language(None) is None
    with pytest.raises(BadRequest, match=r"supported: en \(English\)"):
        prompt.check_language("Latin")


def test_the_demo_tokenizer_names_its_audio_tokens_as_stock_software_expects() -> None:
    config = json.loads((ROOT / "models/demo/tokenizer_config.json").read_text())
    assert config["extra_special_tokens"] == {
        "audio_token": "<|audio_pad|>",
        "audio_bos_token": "<|audio_start|>",
        "audio_eos_token": "<|audio_end|>",
    }
