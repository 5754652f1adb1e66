"""What the checkpoint of a text model is, and how much of it fits on a GPU; see survey.py."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from auricle.checkpoint.files import tensor_headers
from auricle.checkpoint.geometry import kv_values_per_token
from auricle.checkpoint.survey import BESIDE_GIB, GIB, SERVED_ITEM_BYTES, Part, part_of
from auricle.checkpoint.text_model import TextModel


@dataclass(frozen=True)
class TextSurvey:
    """A text model that has passed every check of its loader.

    It translates into `targets` from `sources`, which are empty if it does not name them.
    `quantization` is the method by which its weights are packed, if they are;
    `kv_bytes_per_token` is what one token takes of the KV cache, in bfloat16.
    """

    architecture: str
    fingerprint: str
    weights: Part
    quantization: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    kv_bytes_per_token: int
    max_positions: int

    @property
    def served_bytes(self) -> int:
        """What the weights take of a GPU. Packed ones stay as they are."""
        stored, served = self.weights.bytes, self.weights.parameters * SERVED_ITEM_BYTES
        return stored if self.quantization else served


@dataclass(frozen=True)
class TextRoom:
    """What a GPU of `gib` holds, if one translate worker has it for itself.

    `translations` are as many as have room at a time, each of up to `tokens` with its prompt; 0
    where the weights do not fit.
    """

    gib: float
    kv_tokens: int
    tokens: int
    translations: int


def text_survey(model: TextModel) -> TextSurvey:
    """Return what a checked checkpoint is. Raises CheckpointError if its weights are unreadable."""
    parameters: Counter[str] = Counter()
    for tensor in tensor_headers(model.path):
        parameters[tensor.dtype] += tensor.parameters
    counted = part_of(parameters)
    quantization = model.config.get("quantization_config") or {}
    return TextSurvey(
        architecture=str(model.config["architectures"][0]),
        fingerprint=model.fingerprint,
        weights=Part(counted.parameters, model.weight_bytes, counted.dtypes),
        quantization=str(quantization.get("quant_method", "")),
        sources=model.sources,
        targets=model.targets,
        kv_bytes_per_token=kv_values_per_token(model.config) * SERVED_ITEM_BYTES,
        max_positions=int(model.config["max_position_embeddings"]),
    )


def text_room(found: TextSurvey, gib: float, memory_share: float, tokens: int) -> TextRoom:
    """Return what a GPU with `gib` GiB holds, `memory_share` of which the worker may take."""
    free = gib * memory_share - found.served_bytes / GIB - BESIDE_GIB
    kv_tokens = int(max(0.0, free) * GIB // found.kv_bytes_per_token)
    longest = min(tokens, found.max_positions)
    return TextRoom(gib, kv_tokens, longest, kv_tokens // longest)
