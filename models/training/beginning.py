"""Initialise training with a published checkpoint of fewer layers or of other words.

The checkpoint's weights are kept, and additional parts contribute nothing at first (Chen et al.
2015, Net2Net): the outputs of new units within a layer are ignored, new layers pass on their input,
and new words have the embeddings of an untrained model. The width of the layers' inputs is fixed.
"""

from __future__ import annotations

from pathlib import Path

import torch

from models.training.model import DemoModel
from models.training.prompts import Tokenizer
from models.training.reference import Reference

_EMBEDDINGS = ("text.model.embed_tokens.weight", "text.lm_head.weight")
_LAST_OF_A_BLOCK = ("out_proj", "fc2", "o_proj", "down_proj")  # added to the layer's input


def begin_with(model: DemoModel, tokenizer: Tokenizer, start: Path) -> None:
    """Give `model` the weights at `start`. `tokenizer` is the tokenizer of `model`.

    Raises ValueError if `model` is smaller than the checkpoint.
    """
    found = Reference(start)
    old, new = found.model.state_dict(), model.state_dict()
    ids = _common(found.tokenizer, tokenizer)
    for name, value in new.items():
        if name in _EMBEDDINGS:
            value[list(ids.values())] = old[name][list(ids)]
        elif name in old:
            new[name] = _grown(name, old[name], value)
        elif name.split(".")[-2] in _LAST_OF_A_BLOCK:
            new[name] = torch.zeros_like(value)
    model.load_state_dict(new)


def _common(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """Map the old ids of the tokens that both have to the new ones."""
    theirs, ours = old.get_vocab(), new.get_vocab()
    return {theirs[token]: ours[token] for token in theirs if token in ours}


def _grown(name: str, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Return `old` in the corner of `new`; further rows are as in `new`, further columns zero."""
    if any(have > room for have, room in zip(old.shape, new.shape, strict=True)):
        raise ValueError(f"{name} is {tuple(old.shape)}, and {tuple(new.shape)} is to be trained")
    grown = new.clone()
    if old.dim() > 1:
        grown[:, old.shape[1] :] = 0
    grown[tuple(slice(size) for size in old.shape)] = old
    return grown
