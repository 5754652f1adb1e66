"""Whisper's encoder: with padding it equals the published one; with cached silence it is close."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch

from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.whole_chunks import WhisperChunks
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.workers.encode import whisper
from auricle.workers.encode.cost import cost_of
from auricle.workers.encode.encoder import MelWindow
from auricle.workers.encode.whisper import WhisperChunkEncoder
from auricle_testing import recordings
from auricle_testing.checkpoints.whisper import Stock, random_whisper

pytestmark = pytest.mark.unit
SECONDS = (0.8, 2.5, 5.0, 3.1)


@dataclass(frozen=True)
class Model:
    """A random checkpoint: transformers' own model, and the encoder of the split path."""

    checkpoint: ModelCheckpoint
    stock: Stock
    encoder: WhisperChunkEncoder


@pytest.fixture(scope="module", params=[80, 128], ids=["80 bins", "128 bins"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("whisper")
    stock = random_whisper(path, bins=request.param)
    return made(path, stock)


def made(path: Path, stock: Stock) -> Model:
    checkpoint = open_checkpoint(path)
    return Model(checkpoint, stock, WhisperChunkEncoder(checkpoint, "float32", "cpu", 1))


def clips() -> Iterator[Int16]:
    """Excerpts of different lengths, each from another recording."""
    for name, seconds in zip(recordings.NAMES, SECONDS, strict=False):
        yield to_int16(recordings.samples(name))[: int(seconds * recordings.SAMPLE_RATE)]


def windows(model: Model, pcm: Int16, *, cached: bool) -> tuple[Window, ...]:
    geometry = model.checkpoint.geometry
    if cached:
        geometry = geometry.before_cached_silence()
    audio = SegmentAudio(geometry, KeyScheme(model.checkpoint.fingerprint, "float32", "t"))
    audio.push(pcm)
    return audio.windows(len(pcm))


def mel(window: Window) -> MelWindow:
    return MelWindow(window.frames, window.floor)


def test_padded_it_is_the_published_encoder(model: Model) -> None:
    for pcm in clips():
        (window,) = windows(model, pcm, cached=False)
        (found,) = model.encoder.encode([mel(window)])
        expected = model.stock.embeddings(to_float(pcm))
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("cached", [True, False])
def test_chunks_of_a_batch_do_not_change_each_other(model: Model, cached: bool) -> None:
    """Chunks have different lengths and silence levels; some are padded or silence itself."""
    batch = [mel(one) for pcm in clips() for one in windows(model, pcm, cached=cached)]
    batch += [mel(one) for pcm in clips() for one in windows(model, pcm // 50, cached=True)]
    together = model.encoder.encode(batch)
    for window, found in zip(batch, together, strict=True):
        (alone,) = model.encoder.encode([window])
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def rounded(model: Model) -> Model:
    """The same checkpoint with 8-bit weights and products."""
    encoder = WhisperChunkEncoder(model.checkpoint, "float32", "cpu", 1, int8=True)
    return replace(model, encoder=encoder)


def test_with_8_bits_the_embeddings_are_close(model: Model, rounded: Model) -> None:
    for pcm in clips():
        own, _ = (mel(one) for one in windows(model, pcm, cached=True))
        (exact,), (found,) = model.encoder.encode([own]), rounded.encoder.encode([own])
        assert 1e-6 < (found - exact).norm() / exact.norm() < 0.02


def test_with_8_bits_chunks_of_a_batch_have_the_same_embeddings_as_alone(rounded: Model) -> None:
    batch = [mel(one) for pcm in clips() for one in windows(rounded, pcm, cached=True)]
    together = rounded.encoder.encode(batch)
    for window, found in zip(batch, together, strict=True):
        assert torch.equal(found, rounded.encoder.encode([window])[0])


def test_before_cached_silence_it_computes_the_audio_and_a_second(model: Model) -> None:
    for pcm in clips():
        own, silence = windows(model, pcm, cached=True)
        found, behind = model.encoder.encode([mel(own), mel(silence)])
        assert found.shape == (own.embeddings, 64)
        assert behind.shape == (1500, 64)
        assert own.embeddings == pytest.approx(50 * (len(pcm) / recordings.SAMPLE_RATE + 1), abs=1)


def test_cached_silence_is_heard_and_is_that_of_the_window_behind(model: Model) -> None:
    """If the audio is silence, too, the approximation equals the published encoder's output."""
    pcm = np.zeros(2 * recordings.SAMPLE_RATE, np.int16)
    own, silence = windows(model, pcm, cached=True)
    found, behind = model.encoder.encode([mel(own), mel(silence)])
    expected = model.stock.embeddings(to_float(pcm))
    whole = torch.cat([found, behind[len(found) :]])
    torch.testing.assert_close(whole, expected, atol=1e-4, rtol=0)


def test_of_speech_it_is_an_approximation_that_hears_the_silence(model: Model) -> None:
    """It is closer to the published encoder than without any silence after the audio."""
    pcm = next(clips())
    own, _ = windows(model, pcm, cached=True)
    expected = model.stock.embeddings(to_float(pcm))[: own.embeddings]
    (found,) = model.encoder.encode([mel(own)])
    (blocks,) = [model.encoder.convolve(model.encoder.blocks(mel(own)))]
    cut_off = model.encoder._run([model.encoder._embedded(blocks)], [None])[0][0]
    error, without = ((one - expected).abs().mean() for one in (found, cut_off))
    assert 0 < error < without / 2


def test_levels_of_silence_are_computed_once_and_the_oldest_is_forgotten(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[float] = []
    encoder = WhisperChunkEncoder(model.checkpoint, "float32", "cpu", 1)
    encode_silence = encoder._encode_silence

    def noted(floor: float) -> whisper.EncodedSilence:
        computed.append(floor)
        return encode_silence(floor)

    monkeypatch.setattr(encoder, "_encode_silence", noted)
    pcm = next(clips())
    (one, _), (other, _), (third, _) = (
        windows(model, pcm // quieter, cached=True) for quieter in (1, 4, 16)
    )
    first = encoder.encode([mel(one)])[0]
    encoder.encode([mel(one), mel(one), mel(other), mel(one)])
    assert len(computed) == len({*computed}) == 2
    size = encode_silence(computed[0]).bytes
    monkeypatch.setattr(whisper, "_CACHE_BYTES", 2 * size)
    encoder.encode([mel(third)])  # it replaces `other`, used before `one`
    encoder.encode([mel(one)])
    assert len(computed) == 3
    encoder.encode([mel(other)])
    assert computed[3] == computed[1]
    assert len(encoder._silence) == 2
    again = encoder.encode([mel(one)])[0]
    torch.testing.assert_close(again, first, atol=1e-6, rtol=0)


def test_a_chunk_of_silence_is_computed_once(model: Model) -> None:
    """This holds with the audio before it, and in any order with other chunks."""
    encoder = WhisperChunkEncoder(model.checkpoint, "float32", "cpu", 1)
    pairs = [windows(model, pcm, cached=True) for pcm in clips()]
    chunks = [mel(one) for own, silence in pairs for one in (silence, own)]
    blocks = [encoder.convolve(encoder.blocks(one)) for one in chunks]
    for found, expected in zip(encoder.attend(blocks), model.encoder.encode(chunks), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    run = Mock(wraps=encoder._run)
    with patch.object(encoder, "_run", run):
        encoder.attend(blocks[::2])
    run.assert_not_called()


class Left(Exception):
    """Raised when the pass is withdrawn."""


def test_a_pass_can_end_between_layers_and_silence_is_kept_nevertheless(model: Model) -> None:
    """Silence takes the time of a whole chunk, and the next pass needs it."""
    encoder = WhisperChunkEncoder(model.checkpoint, "float32", "cpu", 1)
    own, _ = windows(model, next(clips()), cached=True)
    (expected,) = encoder.encode([mel(own)])
    encoder = WhisperChunkEncoder(model.checkpoint, "float32", "cpu", 1)
    between_layers = Mock(side_effect=[None, Left])
    encoder.between_layers = between_layers
    with pytest.raises(Left):
        encoder.encode([mel(own)])
    assert between_layers.call_count == 2 and len(encoder._silence) == 1
    encoder.between_layers = lambda: None
    torch.testing.assert_close(encoder.encode([mel(own)])[0], expected, atol=0, rtol=0)


@pytest.mark.parametrize("floor", [-7.1, -6.5])
def test_the_silence_behind_usual_speech_is_ready_before_the_first_pass(
    model: Model, floor: float
) -> None:
    encoder = WhisperChunkEncoder(model.checkpoint, "float32", "cpu", 1)
    encoder.prepare()
    run = Mock(wraps=encoder._run)
    pairs = windows(model, next(clips()), cached=True)
    chunks = [encoder.blocks(MelWindow(one.frames, floor)) for one in pairs]
    with patch.object(encoder, "_run", run):
        encoder.attend([encoder.convolve(blocks) for blocks in chunks])
    run.assert_called_once()


def test_the_cost_of_a_chunk_grows_with_the_positions_that_are_computed(model: Model) -> None:
    cost = cost_of(model.checkpoint)
    geometry = model.checkpoint.geometry
    assert isinstance(geometry, WhisperChunks)
    assert cost.convs([100]) == 0
    # All are linear: a fifth of the positions, each with the keys of a whole chunk.
    assert cost.window(300) * 5 == pytest.approx(cost.window(geometry.window_embeddings))


def test_the_encoder_does_without_transformers() -> None:
    """Its import takes seconds and 150 MB."""
    program = "import sys, auricle.workers.encode.main, auricle.workers.encode.whisper\n"
    program += "print('transformers' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"False\n"
