"""A checkpoint for benchmarks whose answers continue as they began."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.checkpoints import SIZES, write_checkpoint

pytestmark = pytest.mark.unit


def following(weights: dict[str, torch.Tensor], token: int) -> int:
    """The next token if the decoder's layers added nothing."""
    embedding = weights["thinker.model.embed_tokens.weight"][token].float()
    return int((weights["thinker.lm_head.weight"].float() @ embedding).argmax())


def test_each_word_follows_another_until_all_were_said(tmp_path: Path) -> None:
    write_checkpoint(dataclasses.replace(SIZES["tiny"], words=50, steady=True), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    head = weights["thinker.lm_head.weight"].float()
    words = head.abs().sum(1).nonzero().flatten().tolist()
    said = [words[0]]
    while (token := following(weights, said[-1])) != words[0]:
        said.append(token)
    assert sorted(said) == words
    projection = weights["thinker.model.layers.0.mlp.down_proj.weight"].float()
    assert 0 < projection.abs().max() < 1e-3
