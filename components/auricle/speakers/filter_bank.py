"""Kaldi's log-mel filter bank, which speaker models are trained on, for 16 kHz audio."""

from __future__ import annotations

import numpy as np
import torch
from transformers.audio_utils import mel_filter_bank

from auricle.audio.constants import SAMPLE_RATE

BINS = 80
FRAME = SAMPLE_RATE * 25 // 1000  # samples under one frame's window
HOP = SAMPLE_RATE // 100
_FFT = 512
_PRE_EMPHASIS = 0.97
_LEAST = float(np.finfo(np.float32).eps)


class FilterBank:
    """Computes filter-bank frames on one device. Equal to Kaldi's without dither."""

    def __init__(self, device: torch.device) -> None:
        filters = mel_filter_bank(
            *(_FFT // 2 + 1, BINS, 20.0, SAMPLE_RATE / 2, SAMPLE_RATE),
            mel_scale="kaldi",
            triangularize_in_mel_space=True,
        )
        self._filters = torch.from_numpy(filters).float().to(device)
        self._window = torch.hann_window(FRAME, periodic=False, device=device).pow(0.85)
        self._device = device

    def frames(self, pcm: torch.Tensor) -> torch.Tensor:
        """Return (n, 80) of 16 kHz samples between -1 and 1, at least 400 of them.

        Frame k has samples from 160 k to 160 k + 400.
        """
        pieces = pcm.to(self._device).unfold(0, FRAME, HOP)
        pieces = pieces - pieces.mean(1, keepdim=True)
        before = torch.cat([pieces[:, :1], pieces[:, :-1]], 1)
        pieces = (pieces - _PRE_EMPHASIS * before) * self._window
        power = torch.fft.rfft(pieces, _FFT).abs().square()
        found: torch.Tensor = (power @ self._filters).clamp_min(_LEAST).log()
        return found
