"""The encoder with each kind of attention that it offers on a device.

Commits whose encoder offers no choice can be measured too: they have one, window by window.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import get_args

from auricle.checkpoint.files import Checkpoint
from auricle.encode_worker.encoder import Encoder

_THREADS = 1
_CHOICE = "auricle.encode_worker.attention"
_ONLY = "per_window"


def encoders(checkpoint: Checkpoint, dtype: str, device: str) -> Iterator[tuple[str, Encoder]]:
    """Yield the name of each kind and an encoder that has it, one after the other."""
    offered = kinds()
    if not offered:
        yield _ONLY, Encoder(checkpoint, dtype, device, _THREADS)
    for kind in offered:
        # FlashAttention is for GPUs, in half precision.
        if kind != "varlen" or (device == "cuda" and dtype != "float32"):
            chosen = {"attention": kind}
            yield kind, Encoder(checkpoint, dtype, device, _THREADS, **chosen)


def kinds() -> tuple[str, ...]:
    """Return the kinds that the encoder offers; none if there is no choice."""
    try:
        choice = importlib.import_module(_CHOICE)
    except ModuleNotFoundError as error:
        if error.name != _CHOICE:
            raise
        return ()
    return get_args(choice.Attention)
