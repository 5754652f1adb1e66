"""Augmentation of log-mel spectrograms: another vocal tract, and missing bands."""

from __future__ import annotations

import random

import torch


def warped(mel: torch.Tensor, factor: float) -> torch.Tensor:
    """Return (bins, frames) with band `b` taken from band `b / factor`.

    A factor above 1 simulates a child's vocal tract. Bands from beyond the last one are as
    quiet as the quietest bin.
    """
    bins = len(mel)
    from_ = torch.arange(bins) / factor
    low = from_.floor().clamp(max=bins - 2).long()
    share = (from_ - low).clamp(max=1.0)[:, None]
    warped = mel[low] * (1 - share) + mel[low + 1] * share
    return torch.where((from_ > bins - 1)[:, None], mel.min(), warped)


def masked(mel: torch.Tensor, dice: random.Random, widest: int) -> torch.Tensor:
    """Return (bins, frames) with two bands as quiet as the quietest bin (SpecAugment); in place."""
    for _ in range(2):
        width = dice.randint(0, widest)
        at = dice.randint(0, len(mel) - width)
        mel[at : at + width] = mel.min()
    return mel
