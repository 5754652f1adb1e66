"""The encoder's first training, without a text model: the current word and the position in it.

An encoder that was trained for transcription marks each word once, mostly near its end. An aligner
needs the word at every one of its embeddings, because text tokens attend to it. A step of the
encoder alone costs a quarter of the whole model's, and every window of a clip is an example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional

from models.training.align.examples import Clip
from models.training.align.labels import UNKNOWN, frame_labels

# Distances from a boundary (s) are clamped to this.
_NEAR = 0.4
_WEIGHTS = {"word": 1.0, "before": 0.5, "edges": 3.0}


class Hearing(nn.Module):
    """Heads on the embeddings, used only in this training, and their losses."""

    def __init__(self, hidden: int, classes: Mapping[str, int]) -> None:
        super().__init__()
        self._classes = classes
        self.word = nn.Linear(hidden, len(classes) + 1)
        self.before = nn.Linear(hidden, len(classes) + 1)
        self.edges = nn.Linear(hidden, 2)

    def forward(
        self, clips: Sequence[Clip], lengths: Sequence[int], audio: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Each loss by its name, and their weighted `sum`; `audio` is (sum of lengths, hidden)."""
        labels = [
            frame_labels(clip, length, self._classes)
            for clip, length in zip(clips, lengths, strict=True)
        ]
        word, before, _, since, left = (torch.cat(some) for some in zip(*labels, strict=True))
        plain = functional.layer_norm(audio.float(), audio.shape[-1:])
        known = word > 0
        scores = self.word(plain).float()
        parts = {
            "word": functional.cross_entropy(scores, word, ignore_index=UNKNOWN),
            "before": functional.cross_entropy(self.before(plain).float(), before),
            "edges": functional.l1_loss(
                self.edges(plain).float()[known],
                torch.stack([since, left], -1)[known].clamp(0.0, _NEAR) / _NEAR,
            ),
        }
        parts["sum"] = torch.stack([_WEIGHTS[name] * loss for name, loss in parts.items()]).sum()
        parts["right"] = (scores.argmax(-1) == word)[known].float().mean()
        return parts
