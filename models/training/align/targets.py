"""Times in an aligner's output format, bins of 80 ms, and the targets of the bin classifier.

A time is rounded to the nearest bin, and a bin stands for its number times 80 ms. Rounding costs
20 ms on average and 40 ms at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

BIN_SECONDS = 0.08
# Embeddings per second of audio, and mel frames (10 ms) per embedding.
_FRAMES_A_SECOND = 13
_MEL_FRAMES = 8
_MEL_FRAMES_A_SECOND = 100


def bin_of(seconds: float) -> int:
    """The nearest bin; halves are rounded up."""
    return int(seconds / BIN_SECONDS + 0.5)


def frame_of(seconds: float) -> int:
    """The embedding that contains a time: 13 a second; the last one is half as long."""
    mel = int(seconds * _MEL_FRAMES_A_SECOND + 1e-6)
    whole, rest = divmod(mel, _MEL_FRAMES_A_SECOND)
    return whole * _FRAMES_A_SECOND + rest // _MEL_FRAMES


def frame_seconds(frame: int) -> float:
    """When an embedding begins (s)."""
    whole, rest = divmod(frame, _FRAMES_A_SECOND)
    return whole + rest * _MEL_FRAMES / _MEL_FRAMES_A_SECOND


def soft_bins(seconds: torch.Tensor, classes: int, width: float) -> torch.Tensor:
    """Times (n,) in seconds → (n, classes) weights that sum to 1: a bell around the exact time.

    `width` is its standard deviation in bins. Neighbouring bins are nearly right, and
    their weights encode the position of the time within its bin. NaN gives a row of NaN.
    """
    distance = torch.arange(classes) - seconds[:, None] / BIN_SECONDS
    return torch.softmax(-0.5 * (distance / width) ** 2, dim=-1)


def soft_frames(frames: torch.Tensor, count: int, width: float) -> torch.Tensor:
    """Frames (n,) → (n, count) weights that sum to 1 around each, `width` in frames."""
    distance = torch.arange(count) - frames[:, None]
    return torch.softmax(-0.5 * (distance / width) ** 2, dim=-1)


def prompt_times(spans: Sequence[tuple[float | None, float | None]]) -> list[float]:
    """Start, end, start, end … in the order of the `<timestamp>` tokens; NaN where unknown."""
    return [float("nan") if time is None else time for span in spans for time in span]
