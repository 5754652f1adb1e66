"""`auricle models check` on a text model: its properties, its memory, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from auricle.checkpoints.survey import TextSurvey, text_room, text_survey
from auricle.checkpoints.text_model import open_text_model
from auricle.cli import main
from auricle.core.errors import CheckpointError
from auricle_testing.checkpoints.translators import random_translator
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo-translate"


@pytest.fixture(scope="module")
def demo() -> TextSurvey:
    return text_survey(open_text_model(DEMO))


def test_every_parameter_is_counted_and_memory_follows_the_config(demo: TextSurvey) -> None:
    weights = load_file(DEMO / "model.safetensors")
    assert demo.weights.parameters == sum(tensor.numel() for tensor in weights.values())
    assert demo.served_bytes == 2 * demo.weights.parameters
    assert demo.kv_bytes_per_token == 2 * 3 * 2 * 32 * 2  # K and V, layers, heads, width, bytes
    assert (demo.sources, demo.targets, demo.max_positions) == (("en",), ("es",), 4096)


def test_a_larger_gpu_holds_more_and_a_small_one_nothing(demo: TextSurvey) -> None:
    small, large, larger = (text_room(demo, gib, 0.85, 2048) for gib in (3.0, 24.0, 80.0))
    assert (small.kv_tokens, small.translations) == (0, 0)
    assert 0 < large.translations < larger.translations
    assert larger.translations * 2048 <= larger.kv_tokens
    assert larger.kv_tokens * demo.kv_bytes_per_token < 80 * (1 << 30)


def test_no_translation_is_longer_than_the_positions(demo: TextSurvey) -> None:
    assert text_room(replace(demo, max_positions=512), 24.0, 0.85, 2048).tokens == 512


def test_packed_weights_are_served_as_they_are_stored(demo: TextSurvey) -> None:
    packed = replace(demo, quantization="awq", weights=replace(demo.weights, bytes=1000))
    assert packed.served_bytes == 1000


def test_people_and_programs_can_read_it() -> None:
    done = CliRunner().invoke(main, ["models", "check", str(DEMO), "--gpu-memory", "24"])
    assert done.exit_code == 0, done.stderr
    assert "from en into es" in done.stdout and "Qwen3ForCausalLM" in done.stdout
    assert "GPU, 24 GiB" in done.stdout and "of up to 2048 tokens" in done.stdout
    done = CliRunner().invoke(main, ["models", "check", str(DEMO), "--json", "--gpu-memory", "80"])
    told = json.loads(done.stdout)
    assert (told["targets"], told["kv_bytes_per_token"]) == (["es"], 768)
    assert told["gpus"][0]["translations"] > 0


def test_one_without_a_chat_template_is_one_clear_line(tmp_path: Path) -> None:
    random_translator(tmp_path, template=None)
    done = CliRunner().invoke(main, ["models", "check", str(tmp_path)])
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "has no chat template" in done.stderr


def _config(path: Path, **changed: object) -> None:
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


def _weights(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    weights = load_file(path / "model.safetensors")
    change(weights)
    save_file(weights, path / "model.safetensors")


def _without_last_layer(weights: dict[str, Any]) -> None:
    for name in [name for name in weights if ".layers.1." in name]:
        del weights[name]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (
            lambda path: _config(path, hidden_size="64", max_position_embeddings=None),
            "config.hidden_size is '64'.*config.max_position_embeddings is None",
        ),
        (
            lambda path: _config(path, num_attention_heads=3, num_key_value_heads=2),
            "num_attention_heads 3 is not divisible by num_key_value_heads 2",
        ),
        (
            lambda path: _config(path, vocab_size=1000),
            r"1000 tokens \(vocab_size\).*embed_tokens.weight` has shape \(1152, 64\)",
        ),
        (lambda path: _config(path, num_hidden_layers=3), "lack layer 2, counted from 0, of the 3"),
        (
            lambda path: _weights(path, _without_last_layer),
            "lack layer 1, counted from 0, of the 2",
        ),
        (
            lambda path: (path / "model.safetensors").write_bytes(b"no weights"),
            "not a readable safetensors file",
        ),
        (lambda path: (path / "model.safetensors").unlink(), "no .*safetensors weights"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, spoil: Callable[[Path], object], named: str
) -> None:
    random_translator(tmp_path)
    spoil(tmp_path)
    with pytest.raises(CheckpointError, match=named):
        open_text_model(tmp_path)
