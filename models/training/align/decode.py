"""Word times from an aligner's scores, computed as in the published code."""

from __future__ import annotations

import numpy as np
import torch
from transformers.models.qwen3_asr import processing_qwen3_asr

from models.training.align.targets import BIN_SECONDS

Times = tuple[float, float]


def word_times(bins: torch.Tensor) -> list[Times]:
    """Bins at the `<timestamp>` tokens of one prompt → (start, end) in seconds a word.

    Bins that are out of order are repaired from their neighbours; the longest increasing
    subsequence is unchanged (transformers' own repair, in milliseconds).
    """
    if not len(bins):
        return []
    milliseconds = bins.to(torch.float64).numpy() * (BIN_SECONDS * 1000)
    fixed = processing_qwen3_asr._fix_timestamps(np.round(milliseconds))
    seconds = [value / 1000 for value in fixed]
    return list(zip(seconds[::2], seconds[1::2], strict=True))
