"""What happens to log-mel spectrograms: another vocal tract, and bands that are missing."""

from __future__ import annotations

import random

import torch


def warped(mel: torch.Tensor, factor: float) -> torch.Tensor:
    """Return (bins, frames) whose band `b` is what was in band `b / factor`; above 1 is a child.

    Bands that would come from beyond the last are as quiet as the quietest of all.
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
