"""Losses of the aligner's training: the bins at its `<timestamp>` tokens, and auxiliary targets.

Inference uses only the bins. The auxiliary targets show the lower layers their task, which a small
model does not discover in the available training time: the time of an audio embedding, the word
spoken there and its index, and the position to attend to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from models.training.align.examples import Clip
from models.training.align.labels import UNKNOWN, frame_labels, stamp_labels
from models.training.align.model import Aligner, Pass
from models.training.align.targets import (
    frame_of,
    frame_seconds,
    prompt_times,
    soft_bins,
    soft_frames,
)

BIN_WIDTH = 0.7
_COUNTED = 192
_COUNT_WIDTH = 1.0
# Number of text layers before the heads for words, count and time.
LISTENED = 2
# Layers with supervised attention: width of the target in frames, and the attention heads.
_GUIDED = {2: (2.5, (0,)), 3: (1.0, (0, 1)), 4: (0.7, (0, 2))}
_WEIGHTS = {
    "bins": 1.0,
    "early": 0.3,
    "time": 0.3,
    "word": 0.3,
    "before": 0.3,
    "count": 0.15,
    "look": 0.3,
}


@dataclass(frozen=True)
class Batch:
    """`audio_lengths` are embeddings per clip; `ids` and `mask` are (clips, n)."""

    clips: list[Clip]
    audio_lengths: list[int]
    ids: torch.Tensor
    mask: torch.Tensor


class Losses(nn.Module):
    """Losses of a forward pass, with the auxiliary heads that exist only in training."""

    def __init__(self, hidden: int, bins: int, classes: dict[str, int]) -> None:
        super().__init__()
        self._classes, self._bins = classes, bins
        self.time = nn.Linear(hidden, bins)
        self.word = nn.Linear(hidden, len(classes) + 1)
        self.before = nn.Linear(hidden, len(classes) + 1)
        self.count = nn.Linear(hidden, _COUNTED)

    def forward(
        self, model: Aligner, batch: Batch, found: Pass, *, heads_alone: bool = False
    ) -> dict[str, torch.Tensor]:
        """Each loss by its name, and their weighted `sum`.

        With `heads_alone` the auxiliary heads do not propagate gradients into the model.
        """
        stamps = batch.ids == model.timestamp
        times = torch.tensor(
            [t for clip in batch.clips for t in prompt_times([w.span for w in clip.words])]
        )
        known = ~times.isnan()
        target = soft_bins(times[known], self._bins, BIN_WIDTH)
        parts = {"bins": _soft(model.bins(found.layers[-1][stamps][known]), target)}
        early = [model.bins(model.norm(h[stamps][known])) for h in found.layers[3:-1]]
        parts["early"] = torch.stack([_soft(scores, target) for scores in early]).mean()
        layer = found.layers[LISTENED]
        parts |= self._heard(batch, layer.detach() if heads_alone else layer, stamps)
        if found.attention is not None:
            parts["look"] = _look(batch, found.attention, stamps, times)
        parts["sum"] = torch.stack([_WEIGHTS[name] * loss for name, loss in parts.items()]).sum()
        return parts

    def lesson(self, model: Aligner, batch: Batch, hidden: torch.Tensor) -> dict[str, torch.Tensor]:
        """Losses that need no speech: time at the audio, and all labels at the stamps."""
        stamps = batch.ids == model.timestamp
        audio, seconds = _audio(batch, hidden)
        parts = {"time": self._time(audio, seconds)}
        labels = [stamp_labels(clip, self._classes) for clip in batch.clips]
        parts |= self._described(hidden[stamps], labels)
        parts["sum"] = torch.stack([_WEIGHTS[name] * loss for name, loss in parts.items()]).sum()
        return parts

    def _heard(
        self, batch: Batch, hidden: torch.Tensor, stamps: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Time at the audio embeddings; word, word before and count there and at the stamps.

        Audio and text share the heads, so that they learn the same representation of a word.
        """
        audio, seconds = _audio(batch, hidden)
        labels: list[tuple[torch.Tensor, ...]] = [
            frame_labels(clip, length, self._classes)[:3]
            for clip, length in zip(batch.clips, batch.audio_lengths, strict=True)
        ]
        labels += [stamp_labels(clip, self._classes) for clip in batch.clips]
        return {
            "time": self._time(audio, seconds),
            **self._described(torch.cat([audio, hidden[stamps]]), labels),
        }

    def _time(self, audio: torch.Tensor, seconds: torch.Tensor) -> torch.Tensor:
        scores = self.time(functional.layer_norm(audio, audio.shape[-1:]))
        return _soft(scores, soft_bins(seconds, self._bins, BIN_WIDTH))

    def _described(
        self, hidden: torch.Tensor, labels: Sequence[tuple[torch.Tensor, ...]]
    ) -> dict[str, torch.Tensor]:
        """`labels` are words, words before and counts, in the order of `hidden`'s rows."""
        plain = functional.layer_norm(hidden, hidden.shape[-1:])
        word, before, count = (torch.cat(some) for some in zip(*labels, strict=True))
        counted = soft_frames(count.clamp(max=_COUNTED - 1), _COUNTED, _COUNT_WIDTH)
        return {
            "word": functional.cross_entropy(self.word(plain).float(), word, ignore_index=UNKNOWN),
            "before": functional.cross_entropy(self.before(plain).float(), before),
            "count": _soft(self.count(plain), counted),
        }


def _audio(batch: Batch, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states of all audio embeddings, (n, hidden), and when each begins (s)."""
    rows = [hidden[row, 1 : 1 + length] for row, length in enumerate(batch.audio_lengths)]
    seconds = [frame_seconds(f) for length in batch.audio_lengths for f in range(length)]
    return torch.cat(rows), torch.tensor(seconds)


def _soft(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """KL divergence from a soft target: 0 is perfect."""
    return (
        functional.kl_div(scores.float().log_softmax(-1), target, reduction="none").sum(-1).mean()
    )


def _look(
    batch: Batch,
    attention: tuple[torch.Tensor, ...],
    stamps: torch.Tensor,
    times: torch.Tensor,
) -> torch.Tensor:
    """Train some heads to attend, from a `<timestamp>`, to the audio around its time."""
    longest = max(batch.audio_lengths)
    known = ~times.isnan()
    frames = torch.tensor([frame_of(t) for t in times[known].tolist()])
    losses = []
    for layer, (width, heads) in _GUIDED.items():
        target = soft_frames(frames, longest, width)
        for head in heads:
            seen = attention[layer][:, head, :, 1 : 1 + longest][stamps][known]
            losses.append(-(target * (seen.float() + 1e-5).log()).sum(-1).mean())
    return torch.stack(losses).mean()
