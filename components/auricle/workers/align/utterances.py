"""The input of an aligner."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Utterance:
    """A segment's embeddings (n, hidden_size), and the token ids after them.

    The text begins after `lead` tokens. The segment is `audio_ms` long; for cross-attention the
    embeddings include the silence after it.
    """

    audio: torch.Tensor
    after: tuple[int, ...]
    lead: int = 0
    audio_ms: int = 0

    @property
    def tokens(self) -> int:
        return 1 + len(self.audio) + len(self.after)
