"""What an aligner takes, and how it loads its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from auricle.errors import CheckpointError

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


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


def load(module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
    """Load weights into a module. Raises CheckpointError if they are not all of it."""
    try:
        missing, unexpected = module.load_state_dict(weights, strict=False)
    except RuntimeError:  # it names every tensor of another shape, in a hundred lines
        raise CheckpointError(
            f"the weights of the {what} have other shapes than its config"
        ) from None
    if missing or unexpected:
        raise CheckpointError(
            f"the weights of the {what} do not fit its config: missing {sorted(missing)[:3]}, "
            f"unexpected {sorted(unexpected)[:3]}"
        )
