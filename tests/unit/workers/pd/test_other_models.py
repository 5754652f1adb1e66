"""Models other than Qwen3-ASR: audio in parts gives the stock model's result for all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.checkpoints.architectures import ARCHITECTURES
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.checkpoints.survey import survey
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import CheckpointError
from auricle.workers.encode.encoder import AudioEncoder
from auricle.workers.encode.main import encoder_for
from auricle.workers.encode.windowed import WindowedEncoder
from auricle.workers.pd.transformers import decoders as text_models
from auricle.workers.pd.transformers.decoders import Decoder, TextDecoder, decoder_of
from auricle.workers.pd.transformers.options import TransformersOptions
from auricle.workers.pd.vllm.plugin import DECODERS
from auricle_testing import recordings
from auricle_testing.checkpoints.gemma import random_gemma4
from auricle_testing.checkpoints.other_models import Listens, random_omni, random_qwen2_audio
from auricle_testing.checkpoints.whisper import random_english_whisper, random_whisper
from auricle_testing.server import ROOT
from auricle_testing.split_path import GRID, GrowingSegment, encode_worker, greedy

pytestmark = pytest.mark.unit
CPU = EncodeWorkerSettings(dtype="float32", threads=1)
KINDS: dict[str, Callable[[Path], Listens]] = {
    "Qwen3-Omni": random_omni,
    "Qwen2-Audio": random_qwen2_audio,
    "Gemma 4": random_gemma4,
    "Whisper": random_whisper,
    "Whisper (English)": random_english_whisper,
}
PROMPTS = {
    "Gemma 4": (
        "<bos><|turn>user\n<|audio><|audio|><audio|>Transcribe the speech in its original "
        "language. Only output the transcription.<turn|>\n<|turn>model\n"
    ),
    "Qwen3-Omni": (
        "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_end|>Transcribe the audio into text."
        "<|im_end|>\n<|im_start|>assistant\n"
    ),
    "Qwen2-Audio": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nAudio 1: "
        "<|audio_bos|><|AUDIO|><|audio_eos|>\nWrite down what is said, word for word, and nothing "
        "else.<|im_end|>\n<|im_start|>assistant\n"
    ),
    "Whisper": "<|startoftranscript|>",
    "Whisper (English)": "<|startoftranscript|><|notimestamps|>",
}


@dataclass
class Model:
    """A random checkpoint, loaded by auricle and by transformers."""

    checkpoint: ModelCheckpoint
    stock: Listens
    encoder: AudioEncoder
    decoder: Decoder
    prompt: PromptFormat


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("model")
    stock = KINDS[request.param](path)
    checkpoint = open_checkpoint(path)
    assert checkpoint.architecture.name == request.param
    options = TransformersOptions("float32", "cpu", 1, 1024, 1, 1)
    return Model(
        checkpoint,
        stock,
        encoder_for(checkpoint, CPU),
        decoder_of(checkpoint, options),
        PromptFormat(checkpoint),
    )


def clips() -> Iterator[Int16]:
    """Parts of the bundled recordings, 1 to 20 s long."""
    random = np.random.default_rng(11)
    while True:
        for name in recordings.NAMES:
            pcm = to_int16(recordings.samples(name))
            length = min(len(pcm), int(random.uniform(1, 20) * recordings.SAMPLE_RATE))
            start = int(random.integers(0, len(pcm) - length + 1))
            yield pcm[start : start + length]


@pytest.mark.asyncio
async def test_a_segment_encoded_as_it_grows_is_what_the_stock_model_makes_of_the_whole(
    model: Model,
) -> None:
    async with encode_worker(model.checkpoint, model.encoder) as worker:
        for pcm in islice(clips(), 3):
            segment = GrowingSegment(worker, pcm)
            for samples in (*range(GRID, len(pcm), GRID), len(pcm)):
                expected = model.stock.embeddings(to_float(pcm[:samples]))
                found = (await segment.until(samples)).embeddings
                torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
            assert not segment.misses


@pytest.mark.asyncio
async def test_a_segment_of_which_the_encoder_has_forgotten_the_beginning_goes_on(
    model: Model,
) -> None:
    pcm = to_int16(recordings.samples("market"))[: 10 * recordings.SAMPLE_RATE]
    expected = model.stock.embeddings(to_float(pcm))
    async with encode_worker(model.checkpoint, model.encoder, conv_blocks=8) as worker:
        one, other = GrowingSegment(worker, pcm), GrowingSegment(worker, pcm[8000:])
        await one.until(7 * recordings.SAMPLE_RATE)
        await other.until(len(other.pcm))  # this takes the whole cache
        found = await one.until(len(pcm))
        torch.testing.assert_close(found.embeddings, expected, atol=1e-4, rtol=0)
        if model.checkpoint.architecture.encoder == "causal":
            assert one.misses == 1


@pytest.mark.parametrize(("context", "language"), [("", None), ("peter hat", "English")])
@pytest.mark.asyncio
async def test_answers_are_those_of_the_stock_model(
    model: Model, context: str, language: str | None
) -> None:
    head, tail = model.prompt.head(context), model.prompt.tail(language)
    answers = set()
    async with encode_worker(model.checkpoint, model.encoder) as worker:
        for pcm in islice(clips(), 4):
            heard = (await GrowingSegment(worker, pcm).until(len(pcm))).embeddings
            found = greedy(model.decoder, heard, head, tail, model.prompt.stop_tokens)
            assert found == model.stock.tokens(to_float(pcm), head, tail)
            answers.add(tuple(found))
    assert len(answers) > 1  # otherwise the audio would not matter


def test_the_prompt_is_the_published_one(model: Model) -> None:
    shown = partial(model.prompt._tokenizer.decode, skip_special_tokens=False)
    head, tail = model.prompt.head(""), model.prompt.tail(None)
    audio = [] if model.prompt.audio_token is None else [model.prompt.audio_token]
    assert shown([*head, *audio, *tail]) == PROMPTS[model.checkpoint.architecture.name]
    in_english = shown(list(model.prompt.tail("English")))
    assert "English" in in_english or in_english in (
        "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>",
        "<|startoftranscript|><|notimestamps|>",
    )
    assert "peter hat" in shown(list(model.prompt.head("peter hat")))


def test_an_answer_is_all_text(model: Model) -> None:
    ids = tuple(model.prompt._tokenizer.encode("the dog").ids)
    ids = (*model.prompt.opening_in("English"), *ids)
    language = "English" if model.prompt.detects_language else ""
    assert model.prompt.answer(ids, None) == (language, "the dog")
    assert model.prompt.answer(ids, "English") == ("English", "the dog")
    assert model.prompt.opening(ids) == model.prompt.opening_in("English")
    assert b"".join(data for _, data in model.prompt.pieces(ids, None)) == b"the dog"


@pytest.mark.parametrize("lacking", ["experts.3.up_proj", "audio_tower.layers.1.fc1"])
def test_weights_that_are_missing_are_named(tmp_path: Path, lacking: str) -> None:
    random_omni(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if lacking not in name}
    save_file(kept, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=lacking.rpartition("audio_tower.")[2]):
        TextDecoder(checkpoint, TransformersOptions("float32", "cpu", 1, 64, 1, 1))
        WindowedEncoder(checkpoint, "float32", "cpu", threads=1)


def test_a_survey_counts_what_recognition_needs(model: Model) -> None:
    found = survey(model.checkpoint)
    everything = load_file(model.checkpoint.path / "model.safetensors")
    unused = model.checkpoint.layout.unused
    assert found.architecture == model.checkpoint.architecture.name
    if model.prompt.detects_language:
        assert found.languages == ("English", "German")
    assert found.encoder.parameters + found.decoder.parameters == sum(
        tensor.numel() for name, tensor in everything.items() if not name.startswith(unused)
    )


def test_every_model_is_tested_described_and_has_a_decoder_in_both_engines() -> None:
    page = (ROOT / "docs/adding_a_model.md").read_text()
    assert {one.name for one in ARCHITECTURES} == {"Qwen3-ASR", *KINDS} == {"Qwen3-ASR", *PROMPTS}
    for one in ARCHITECTURES:
        assert f"| {one.name} |" in page
        assert one.decoder in DECODERS
        assert one.decoder in text_models.MODELS or one.audio == "cross_attention"


@pytest.mark.parametrize("vocabulary", [51864, 51865])
def test_a_config_is_that_of_one_model_only(vocabulary: int) -> None:
    sizes = {"vocab_size": vocabulary}
    for one in ARCHITECTURES:
        for name in one.classes if one.fits(sizes) else ():
            found = [a for a in ARCHITECTURES if name in a.classes and a.fits(sizes)]
            assert found == [one]


def test_sections_that_are_missing_are_named(tmp_path: Path) -> None:
    for one in (a for a in ARCHITECTURES if not a.layouts[0].flat):
        (tmp_path / "config.json").write_text(json.dumps({"architectures": sorted(one.classes)}))
        with pytest.raises(CheckpointError, match=f"is not a {one.name} config: it has"):
            open_checkpoint(tmp_path)
