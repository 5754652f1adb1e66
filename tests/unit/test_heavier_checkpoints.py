"""Heavier checkpoints cost what their names say, and say what the demo's does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3Model

from auricle.audio.pcm import to_int16
from auricle.checkpoint.files import open_checkpoint
from auricle.encode_worker.encoder import Encoder, MelWindow
from auricle.processor.windows import KeyScheme, SegmentAudio
from benchmarks.heavier import SIZES, Heavier, Stack, write_heavier
from tests import recordings
from tests.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"
# Multiplications of the demo's layers per token; see `benchmarks.heavier`.
AUDIO, TEXT = 6 * (102_400 + 320 * 960), 3 * (147_456 + 576 * 512)


@pytest.fixture(scope="module")
def heavier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("heavier")
    write_heavier(SIZES["3x"], output)
    return output


@pytest.mark.parametrize(("name", "times"), [("3x", 3), ("10x", 10), ("30x", 30)])
def test_a_name_says_how_many_times_as_much_the_layers_cost(name: str, times: int) -> None:
    size = SIZES[name]
    audio = size.audio.layers * (102_400 + 320 * size.audio.width)
    text = size.text.layers * (147_456 + 576 * size.text.width)
    assert text == pytest.approx(times * TEXT, rel=0.1)
    # The convolutions, a quarter of the demo's encoder, are not wider; its layers make up for it.
    convolutions = 820_000
    assert audio + convolutions == pytest.approx(times * (AUDIO + convolutions), rel=0.1)


def test_its_config_says_what_its_weights_have(heavier: Path) -> None:
    thinker = json.loads((heavier / "config.json").read_text())["thinker_config"]
    weights = load_file(heavier / "model.safetensors")
    size = SIZES["3x"]
    last = f"thinker.model.layers.{thinker['text_config']['num_hidden_layers'] - 1}."
    assert weights[f"{last}mlp.gate_proj.weight"].shape == (size.text.width, 192)
    last = f"thinker.audio_tower.layers.{thinker['audio_config']['encoder_layers'] - 1}."
    assert weights[f"{last}fc1.weight"].shape == (size.audio.width, 160)


def test_its_encoder_gives_the_embeddings_of_the_demo(heavier: Path) -> None:
    demo = open_checkpoint(DEMO)
    audio = SegmentAudio(demo.geometry, KeyScheme(demo.fingerprint, "float32", "test"))
    pcm = to_int16(recordings.samples(recordings.NAMES[0]))
    audio.push(pcm)
    window = next(iter(audio.windows(len(pcm))))
    (ours,), (theirs,) = (
        Encoder(open_checkpoint(path), "float32", "cpu", threads=1).encode(
            [MelWindow(window.frames, window.floor)]
        )
        for path in (heavier, DEMO)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_its_decoder_ends_in_the_states_of_the_demo(heavier: Path) -> None:
    torch.manual_seed(1)
    embeddings = torch.randn(1, 60, 192)
    with torch.no_grad():
        ours, theirs = (
            _decoder(path)(inputs_embeds=embeddings).last_hidden_state for path in (heavier, DEMO)
        )
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def _decoder(path: Path) -> Qwen3Model:
    text = json.loads((path / "config.json").read_text())["thinker_config"]["text_config"]
    model = Qwen3Model(Qwen3Config(**text)).eval()
    prefix = "thinker.model."
    weights = load_file(path / "model.safetensors")
    model.load_state_dict(
        {n.removeprefix(prefix): w.float() for n, w in weights.items() if n.startswith(prefix)}
    )
    return model


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (Heavier(Stack(5, 960), Stack(3, 512)), "5 layers are fewer than the checkpoint's 6"),
        (Heavier(Stack(6, 960), Stack(3, 500)), "a width of 500 is less than the checkpoint's 512"),
    ],
)
def test_a_lighter_one_is_refused(size: Heavier, what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=what):
        write_heavier(size, tmp_path)
