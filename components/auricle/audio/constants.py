"""Sizes of audio and of Whisper's log-mel features, as Qwen3-ASR uses them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 16_000  # Hz; the rate of all audio behind the frontend's decoders
HOP = 160  # samples from one mel frame to the next: 10 ms
FFT = 400  # samples in the analysis window of one mel frame
BINS = 128  # mel bins per frame; some checkpoints have fewer (`Geometry.mel_bins`)
# A second's last frame becomes final this many samples after the end of the second.
SETTLED = FFT // 2 - HOP

Frames = npt.NDArray[np.float32]  # (frames, bins), log10 mel energies
