"""The aligner's pass equals transformers' own, in a batch and one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from auricle.audio.mel import CLAMP_RANGE, IncrementalLogMel
from auricle.checkpoints.alignment import AlignerPrompt
from auricle.checkpoints.files import open_checkpoint
from auricle.core.errors import CheckpointError
from auricle.workers.align.forced import ForcedAligner
from auricle.workers.align.utterances import Utterance
from auricle.workers.encode.encoder import MelWindow
from auricle.workers.encode.windowed import WindowedEncoder
from auricle_testing.checkpoints.aligners import Reference, as_transformers, random_aligner
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
SECONDS = (1.0, 7.3, 8.0, 19.94)
WORDS = ("red", "market", "don't", "Straße", "好", "42", "monday")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_aligner(tmp_path_factory.mktemp("aligner"))


@pytest.fixture(scope="module")
def reference(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(path, tmp_path_factory.mktemp("reference") / "aligner")


@pytest.fixture(scope="module")
def encoder(path: Path) -> WindowedEncoder:
    return WindowedEncoder(open_checkpoint(path), "float32", "cpu", threads=1)


@pytest.fixture(scope="module")
def aligner(path: Path) -> ForcedAligner:
    return ForcedAligner(open_checkpoint(path), "float32", "cpu", threads=1)


@pytest.fixture(scope="module")
def prompt(path: Path) -> AlignerPrompt:
    return AlignerPrompt(open_checkpoint(path))


def noise(seconds: float) -> np.ndarray:
    draw = np.random.default_rng(int(1000 * seconds))
    return (0.1 * draw.standard_normal(round(16_000 * seconds))).astype(np.float32)


def windows(samples: np.ndarray, encoder: WindowedEncoder) -> torch.Tensor:
    """Embeddings window by window, as encode workers compute them."""
    mel = IncrementalLogMel()
    mel.push(samples)
    frames, maximum = mel.frames(len(samples))
    parts = [
        MelWindow(frames[at : at + 800], maximum - CLAMP_RANGE) for at in range(0, len(frames), 800)
    ]
    return torch.cat(encoder.encode(parts))


def spoken(number: int) -> tuple[str, ...]:
    return tuple(WORDS[(number + at) % len(WORDS)] for at in range(1 + 5 * number))


@pytest.fixture(scope="module")
def utterances(encoder: WindowedEncoder, prompt: AlignerPrompt) -> list[Utterance]:
    return [
        Utterance(windows(rounded(seconds), encoder), prompt.after_audio(spoken(number)))
        for number, seconds in enumerate(SECONDS)
    ]


def rounded(seconds: float) -> np.ndarray:
    """Samples after a conversion to 16 bits and back."""
    return ((noise(seconds) * 32768).astype(np.int16) / 32768).astype(np.float32)


def test_a_pass_gives_what_transformers_gives(
    aligner: ForcedAligner, reference: Reference, utterances: list[Utterance]
) -> None:
    for number, (seconds, logits) in enumerate(
        zip(SECONDS, aligner.logits(utterances), strict=True)
    ):
        expected = reference.logits(rounded(seconds), spoken(number))
        # Logits are up to 90 here, so this tolerance is float32's rounding through eleven layers.
        torch.testing.assert_close(logits, expected, atol=5e-4, rtol=0)
        assert torch.equal(logits.argmax(-1), expected.argmax(-1))


def test_segments_of_any_length_side_by_side_are_aligned_as_if_alone(
    aligner: ForcedAligner, utterances: list[Utterance]
) -> None:
    for one, together in zip(utterances, aligner.logits(utterances), strict=True):
        (alone,) = aligner.logits([one])
        torch.testing.assert_close(together, alone, atol=1e-4, rtol=0)
        assert len(alone) == one.after.count(1091)


def test_both_formats_are_the_same_aligner(
    path: Path, aligner: ForcedAligner, utterances: list[Utterance], tmp_path: Path
) -> None:
    random_aligner(tmp_path)
    as_transformers(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.format == "transformers"
    assert AlignerPrompt(checkpoint).step_ms == 80
    other = ForcedAligner(checkpoint, "float32", "cpu", threads=1)
    assert other.marks(utterances) == aligner.marks(utterances)


def test_half_precision_moves_few_of_the_classes(path: Path, utterances: list[Utterance]) -> None:
    """Random weights have no margin between classes; a trained classifier has."""
    half = ForcedAligner(open_checkpoint(path), "bfloat16", "cpu", threads=1)
    full = ForcedAligner(open_checkpoint(path), "float32", "cpu", threads=1)
    differing = total = 0
    for one, other in zip(half.marks(utterances), full.marks(utterances), strict=True):
        differing += sum(a != b for a, b in zip(one, other, strict=True))
        total += len(one)
    assert differing / total < 0.25


def test_what_is_no_aligner_is_refused_by_name() -> None:
    checkpoint = open_checkpoint(ROOT / "models/demo")
    with pytest.raises(CheckpointError, match="not an aligner: no token <timestamp>"):
        AlignerPrompt(checkpoint)


def test_weights_without_a_classifier_are_refused(tmp_path: Path) -> None:
    random_aligner(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["thinker.lm_head.weight"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"no classifier \(thinker.lm_head.weight or"):
        ForcedAligner(open_checkpoint(tmp_path), "float32", "cpu", threads=1)
