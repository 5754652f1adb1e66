"""What an aligner takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Utterance:
    """A segment's audio, embeddings of shape (n, hidden_size), and the token ids after it.

    The first `lead` of these are no text. The segment is `audio_ms` long; a decoder that attends
    to audio also has embeddings of the silence behind it.
    """

    audio: torch.Tensor
    after: tuple[int, ...]
    lead: int = 0
    audio_ms: int = 0

    @property
    def tokens(self) -> int:
        """The length of its prompt."""
        return 1 + len(self.audio) + len(self.after)
