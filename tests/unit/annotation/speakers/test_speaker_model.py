"""The speaker model equals the published one, and separates the speakers of a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import save_file
from scipy.signal import resample_poly

from auricle.annotation.speakers.campplus import CamPlusPlus, FilterBank
from auricle.annotation.speakers.model import SpeakerSegment
from auricle.annotation.speakers.weights import FILE, packed, read_weights, unpacked
from auricle.annotation.speakers.windowed import WindowedModel
from auricle.core.errors import BadRequest, CheckpointError
from auricle_testing.server import ROOT
from tests.fresh_voice import said_first

pytestmark = pytest.mark.unit
RATE = 16_000
CPU = torch.device("cpu")
DIRECTORY = ROOT / "models/speakers"
TEXT = "We have been waiting here for more than twenty minutes, and nobody came."
SILENCE = np.zeros(RATE // 4, np.int16)
Int16 = npt.NDArray[np.int16]


@pytest.fixture(scope="module")
def model() -> WindowedModel:
    return WindowedModel(DIRECTORY, "cpu", threads=1, most_windows=16)


def said(voice: str, text: str = TEXT) -> Int16:
    speech = said_first(voice, text)
    return resample_poly(speech.samples.astype(np.float64), RATE, speech.rate).astype(np.int16)


def heard(*pieces: Int16, state: bytes = b"", most: int = 16) -> SpeakerSegment:
    return SpeakerSegment(np.concatenate(pieces), state, most)


def test_filter_bank_is_kaldis() -> None:
    """The values are from kaldi-native-fbank 1.22 without dither."""
    t = np.arange(1600) / RATE
    tone = 0.3 * np.sin(2 * np.pi * (200 + 900 * t) * t) + 0.05 * np.sin(2 * np.pi * 3100 * t)
    frames = FilterBank(CPU).frames(torch.from_numpy(tone.astype(np.float32)))
    assert frames.shape == (8, 80)
    expected = [
        [-6.1539, -12.3829, -15.9424, -12.4376, -15.9424],
        [-8.1489, -9.3626, -15.9424, -12.4174, -15.9424],
    ]
    np.testing.assert_allclose(frames[::4, ::16], expected, atol=2e-3)


def test_vectors_are_those_of_the_published_network() -> None:
    """The values are from 3D-Speaker's modules with the published weights, in float32."""
    k = torch.arange(2 * 148 * 80, dtype=torch.float64).view(2, 148, 80)
    frames = (3 * torch.sin(k * 0.37) + 2 * torch.cos(k * k % 97)).float()
    vectors = CamPlusPlus(read_weights(DIRECTORY)[1], CPU).embed(frames)
    assert vectors.shape == (2, 192)
    expected = [
        [-0.0402, -0.0424, 0.0181, -0.0211, 0.0010, 0.0012, -0.0074, -0.0347],
        [-0.0401, -0.0496, 0.0393, -0.0167, 0.0158, 0.0042, 0.0242, -0.0461],
    ]
    np.testing.assert_allclose(vectors[:, ::24], expected, atol=0.015)  # weights are int8
    np.testing.assert_allclose(vectors.norm(dim=1), 1, atol=1e-5)


def test_packed_weights_are_near_and_the_rest_is_equal() -> None:
    draw = torch.Generator().manual_seed(0)
    weights = {"a": torch.randn(4, 3, 5, generator=draw), "b": torch.randn(7, generator=draw)}
    again = unpacked(packed(weights))
    assert again.keys() == weights.keys()
    assert torch.equal(again["b"], weights["b"])
    largest = weights["a"].flatten(1).abs().amax(1).view(-1, 1, 1)
    assert bool(((again["a"] - weights["a"]).abs() <= largest / 254 + 1e-6).all())


def test_a_change_of_speakers_within_a_segment_is_found(model: WindowedModel) -> None:
    first, second = said("en-us+f1"), said("en-us+m8")
    (found,) = model.diarize([heard(first, SILENCE, second)])
    assert [turn.speaker for turn in found.turns if turn.end - turn.start > RATE // 2] == [1, 2]
    change = next(turn.start for turn in found.turns if turn.speaker == 2)
    assert abs(change - len(first) - len(SILENCE)) < RATE // 2


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of windows in each pass of the network."""
    passes, embed = [], CamPlusPlus.embed

    def counted(network: CamPlusPlus, frames: torch.Tensor) -> torch.Tensor:
        passes.append(len(frames))
        return embed(network, frames)

    monkeypatch.setattr(CamPlusPlus, "embed", counted)
    return passes


def test_windows_overlap_only_where_the_voice_changes(
    model: WindowedModel, embedded: list[int]
) -> None:
    first, second = said("en-us+f1"), said("en-us+m8")
    model.diarize([heard(first)])
    assert embedded == [len(first) // (RATE * 3 // 2)]
    model.diarize([heard(first, SILENCE, second)])
    assert embedded[2:] == [1]


def test_warming_up_runs_the_network(model: WindowedModel, embedded: list[int]) -> None:
    model.warm_up()
    assert embedded == [1]


def test_speakers_keep_their_numbers_from_segment_to_segment(model: WindowedModel) -> None:
    state, speakers = b"", []
    for voice in ("en-us+m8", "en-us+f1", "en-us+m8", "en-us+f1"):
        (found,) = model.diarize([heard(said(voice), state=state)])
        state = found.state
        speakers.append({turn.speaker for turn in found.turns})
    assert speakers == [{1}, {2}, {1}, {2}]


def test_an_answer_does_not_depend_on_what_else_is_in_the_batch(model: WindowedModel) -> None:
    one, other = heard(said("en-us+f1")), heard(said("en-us+m8"), SILENCE, said("en-us+f1"))
    alone = [model.diarize([each])[0] for each in (one, other)]
    together = model.diarize([one, other])
    assert [each.turns for each in together] == [each.turns for each in alone]


def test_silence_and_next_to_nothing_have_no_speaker(model: WindowedModel) -> None:
    (first,) = model.diarize([heard(said("en-us+f1"))])
    quiet = [np.zeros(3 * RATE, np.int16), np.ones(100, np.int16)]
    for found in model.diarize([heard(one, state=first.state) for one in quiet]):
        assert found.turns == ()
        assert found.state == first.state


def test_a_short_word_is_that_of_the_nearest_voice(model: WindowedModel) -> None:
    (first,) = model.diarize([heard(said("en-us+f1"))])
    (word,) = model.diarize([heard(said("en-us+f1", "yes"), state=first.state)])
    assert {turn.speaker for turn in word.turns} == {1}


def test_state_of_another_model_is_refused(model: WindowedModel) -> None:
    model.check(b"")
    with pytest.raises(BadRequest, match="another speaker model"):
        model.check(b"x" * 300)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Common\.speaker_model names a directory"):
        read_weights(tmp_path)
    (tmp_path / FILE).write_bytes(b"no tensors at all")
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        read_weights(tmp_path)
    save_file({"a": torch.zeros(2)}, tmp_path / FILE)
    with pytest.raises(CheckpointError, match="weights lack"):
        WindowedModel(tmp_path, "cpu", threads=1, most_windows=1)
