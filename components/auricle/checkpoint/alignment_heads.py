"""The cross-attention heads of a decoder that follow what is being said."""

from __future__ import annotations

import json
from pathlib import Path

from auricle.errors import CheckpointError


def alignment_heads(path: Path, layers: int, heads: int) -> dict[int, tuple[int, ...]]:
    """Return the heads by layer, as generation_config.json names them (`alignment_heads`).

    Where it names none they are all heads of the upper half of the layers, as in openai/whisper.
    Raises CheckpointError if it names heads that the decoder does not have.
    """
    file = path / "generation_config.json"
    try:
        named = json.loads(file.read_text()).get("alignment_heads") if file.is_file() else None
        pairs = sorted({(int(layer), int(head)) for layer, head in named or ()})
    except (OSError, ValueError, TypeError, AttributeError):
        raise CheckpointError(
            f"alignment_heads in {file} is not a list of layers and heads"
        ) from None
    if not pairs:
        return {layer: tuple(range(heads)) for layer in range(layers // 2, layers)}
    found: dict[int, tuple[int, ...]] = {}
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise CheckpointError(
                f"alignment_heads in {file} has head {head} of layer {layer}, but the decoder has "
                f"{layers} layers of {heads} heads"
            )
        found[layer] = (*found.get(layer, ()), head)
    return found
