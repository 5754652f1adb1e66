"""Computes the probability that a speaker's turn is over, with Smart Turn's ONNX model.

The model (https://github.com/pipecat-ai/smart-turn) is a Whisper encoder with a classifier. Its
input is the last 8 s of a turn, up to about 200 ms into a pause; it evaluates words and prosody.
Its features are Whisper's with 80 bins, from audio with normalised mean and variance; Qwen3-ASR's
(`audio.mel`) have 128 bins and no normalisation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from auricle.audio.constants import FFT, HOP, SAMPLE_RATE
from auricle.audio.mel import mel_tables
from auricle.audio.pcm import Int16, to_float

# The length of the model's input; shorter audio is padded with zeros at the front.
TURN_SAMPLES = 8 * SAMPLE_RATE
_BINS = 80
_FRAMES = TURN_SAMPLES // HOP
_INPUT = "input_features"

Floats = npt.NDArray[np.float32]


class SmartTurn:
    """Smart Turn, version 3, on one CPU thread. Calls may come from several threads at a time.

    Each call evaluates one turn, so its value depends on the audio alone. A batch of four takes
    four times as long as one, so batching has no benefit.
    """

    def __init__(self, file: Path) -> None:
        """Load the model. Raises ValueError, naming `file`, if it is not a Smart Turn model."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # The weights are quantized. CPUs without VNNI add pairs of products of signed weights in
        # 16 bits, which saturate: the probabilities of complete turns were a third too low. With
        # this option they use unsigned weights, which is exact and equally fast.
        options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            self._session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no common base class
            raise ValueError(f"{file} is not a loadable ONNX model: {error}") from error
        shapes = {one.name: list(one.shape[1:]) for one in self._session.get_inputs()}
        if shapes != {_INPUT: [_BINS, _FRAMES]}:
            raise ValueError(
                f"{file} is not a Smart Turn v3 model: its inputs are {shapes}, "
                f"expected {_INPUT} of ({_BINS}, {_FRAMES})"
            )

    def probability(self, pcm: Int16) -> float:
        """Return the probability, 0 to 1, that the turn that ends with `pcm` is over.

        `pcm` is 16 kHz mono of shape (n,); only the last 8 s count.
        """
        (found,) = self._session.run(None, {_INPUT: turn_features(pcm)[None]})
        return float(found[0, 0])


def turn_features(pcm: Int16) -> Floats:
    """Return the model's features, float32 (80, 800), of 16 kHz mono audio of shape (n,)."""
    audio = np.zeros(TURN_SAMPLES, np.float32)
    end = to_float(pcm[-TURN_SAMPLES:])
    audio[TURN_SAMPLES - len(end) :] = end
    audio = (audio - audio.mean()) / np.sqrt(audio.var() + np.float32(1e-7))
    window, filters = mel_tables(_BINS)
    padded = np.pad(audio.astype(np.float64), FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:_FRAMES]
    spectrum = np.fft.rfft(frames * window, axis=1)
    energies = (spectrum.real**2 + spectrum.imag**2) @ filters
    log_mel = np.log10(np.maximum(energies, 1e-10)).T
    log_mel = np.maximum(log_mel, log_mel.max() - 8.0)
    features: Floats = ((log_mel + 4.0) / 4.0).astype(np.float32)
    return features
