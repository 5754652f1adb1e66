"""The aligner of a checkpoint, by its architecture, and what passes need of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from auricle.align_worker.cross_attention import CrossAttentionAligner
from auricle.align_worker.forced import ForcedAligner
from auricle.align_worker.utterances import Utterance
from auricle.checkpoint.files import Checkpoint


class Aligner(Protocol):
    """Reads audio and a text. Call it from one worker thread."""

    @property
    def on_gpu(self) -> bool: ...

    def warm_up(self) -> None:
        """Run a pass over silence. Raises whatever the device raises."""
        ...

    def joined(self, windows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the embeddings of a segment, given those of its windows."""
        ...

    def marks(self, utterances: Sequence[Utterance]) -> list[list[int]]:
        """Run one pass; returns what `Script.times_ms` takes of each utterance.

        Raises ArithmeticError if the model gave values that are not finite.
        """
        ...


def aligner_for(checkpoint: Checkpoint, dtype: str, device: str, threads: int) -> Aligner:
    """Load a checkpoint's. Raises CheckpointError if its weights do not fit its config."""
    if checkpoint.architecture.audio == "cross_attention":
        return CrossAttentionAligner(checkpoint, dtype, device, threads)
    return ForcedAligner(checkpoint, dtype, device, threads)
