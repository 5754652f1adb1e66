"""Where the embeddings of a request's windows are. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlacedWindow:
    """One audio item of a prompt: the slot of its `length` embeddings in the landing slab."""

    key: str
    slot: int
    generation: int
    length: int
