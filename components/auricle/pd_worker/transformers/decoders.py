"""The decoder of a checkpoint, by its architecture, and what passes need of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from auricle.checkpoint.files import Checkpoint
from auricle.pd_worker.transformers.decoder import TextDecoder
from auricle.pd_worker.transformers.options import TransformersOptions
from auricle.pd_worker.transformers.whisper import WhisperTextDecoder


class Slots(Protocol):
    """A KV cache that is divided into slots."""

    def slot(self, number: int, filled: int) -> Any:
        """Return a slot whose first `filled` tokens are there; passes append to it."""
        ...


class Decoder(Protocol):
    """A decoder that runs one prompt at a time. Its answers have none of `suppressed`."""

    @property
    def suppressed(self) -> torch.Tensor: ...

    @property
    def kv(self) -> Slots: ...

    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> Any:
        """Return what `step` takes of token ids, and of windows as bytes of embeddings."""
        ...

    def step(self, rows: Any, slot: Any) -> torch.Tensor:
        """Run a pass behind what the slot holds; returns the float32 logits of the next token."""
        ...


def decoder_of(checkpoint: Checkpoint, options: TransformersOptions) -> Decoder:
    """Load the decoder. Raises CheckpointError if its weights do not fit."""
    if checkpoint.architecture.audio == "cross_attention":
        return WhisperTextDecoder(checkpoint, options)
    return TextDecoder(checkpoint, options)
