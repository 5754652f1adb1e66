"""The decoder's part of a checkpoint, for those who run it with transformers' modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

from auricle.checkpoint.files import Checkpoint, weight_files
from auricle.errors import CheckpointError


def text_weights(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of text model and output layer, under transformers' module names.

    The latter is empty where the output is tied to the embeddings of the tokens.
    """
    text: dict[str, Any] = {}
    head: dict[str, Any] = {}
    layout = checkpoint.layout
    for file in weight_files(checkpoint.path):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is not a mapping
                for prefixes, found in (((layout.text,), text), (layout.heads, head)):
                    prefix = next((p for p in prefixes if name.startswith(p)), None)
                    if prefix is not None:
                        found[name.removeprefix(prefix)] = tensors.get_tensor(name)
    return text, head


def head_shape(checkpoint: Checkpoint) -> tuple[int, ...] | None:
    """Return the shape of the output layer's weight, by headers alone; None if there is none."""
    names = {f"{head}weight" for head in checkpoint.layout.heads}
    for file in weight_files(checkpoint.path):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is not a mapping
                if name in names:
                    return tuple(tensors.get_slice(name).get_shape())
    return None


def end_tokens(path: Path) -> frozenset[int]:
    """Return the tokens that end an output, by generation_config.json; none without the file.

    Raises CheckpointError if it is not readable or names something else.
    """
    file = path / "generation_config.json"
    if not file.is_file():
        return frozenset()
    try:
        named = json.loads(file.read_text()).get("eos_token_id")
    except (json.JSONDecodeError, AttributeError) as error:
        raise CheckpointError(f"{file} is no JSON object: {error}") from None
    tokens = named if isinstance(named, list) else [] if named is None else [named]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in tokens):
        raise CheckpointError(f"eos_token_id in {file} is {named!r}, expected token ids")
    return frozenset(tokens)
