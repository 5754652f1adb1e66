"""Reads the checkpoint of a text model, such as a translator, and the text part of others."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.checkpoints.files import (
    ModelCheckpoint,
    fingerprint_of,
    tensor_headers,
    tensors_of,
    weight_files,
)
from auricle.checkpoints.geometry import SizeCheck
from auricle.core.errors import CheckpointError, SettingsError

log = logging.getLogger(__name__)

_OF_OTHERS = ("thinker_config", "audio_config", "vision_config")
_CLASS = "ForCausalLM"  # the end of text models' class names
_LAYER = re.compile(r"\.(\d+)\.")
_TABLE = "embed_tokens.weight"


@dataclass(frozen=True)
class TextModel:
    """A checked checkpoint of a text model; `fingerprint` as in `ModelCheckpoint`.

    `targets` and `sources` are the codes of the languages that it translates into and from, empty
    if config.json does not list them.
    """

    path: Path
    config: dict[str, Any]
    fingerprint: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(file.stat().st_size for file in weight_files(self.path))


def open_text_model(path: Path) -> TextModel:
    """Read and check a checkpoint; reads all weights once, for the fingerprint.

    Blocks for seconds: call it in a worker thread. Raises CheckpointError if a file is missing or
    unreadable, if it is not a text model, or if config and weights do not match.
    """
    config = read_text_config(path)
    file = path / "config.json"
    _check_weights(path, config)
    return TextModel(
        path,
        config,
        fingerprint_of(path, weight_files(path)),
        targets=_codes(config, "translate_languages", file),
        sources=_codes(config, "translate_from", file),
    )


def read_text_config(path: Path) -> dict[str, Any]:
    """Read the config of a text model, without its weights. Raises CheckpointError."""
    file = path / "config.json"
    if not file.is_file():
        raise CheckpointError(f"{path} has no config.json: expected the checkpoint of a text model")
    try:
        config = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(config, dict) or not config.get("architectures"):
        raise CheckpointError(f"{file} names no architecture: expected the config of a text model")
    if strange := [key for key in _OF_OTHERS if key in config]:
        raise CheckpointError(f"{file} has {strange[0]}: expected the checkpoint of a text model")
    _check_sizes(config)
    return config


def is_text_model(path: Path) -> bool:
    try:
        config = json.loads((path / "config.json").read_text())
    except (OSError, ValueError):
        return False
    if not isinstance(config, dict) or any(key in config for key in _OF_OTHERS):
        return False
    named = config.get("architectures")
    return isinstance(named, list) and any(str(one).endswith(_CLASS) for one in named)


def read_targets(path: Path) -> tuple[str, ...]:
    """Return the languages that a text model translates into. Raises CheckpointError."""
    return _codes(read_text_config(path), "translate_languages", path / "config.json")


def pool_targets(path: Path | None, listed: Sequence[str]) -> tuple[str, ...] | None:
    """Return the target languages of a translate pool: `listed`, or its checkpoint's.

    Empty if it translates into any or the checkpoint is on other machines; None without a pool.
    """
    if path is None:
        return None
    if listed:
        return tuple(listed)
    try:
        return read_targets(path)
    except CheckpointError as error:
        log.warning("Cannot read the target languages of the translate pool: %s", error)
        return ()


def check_positions(config: Mapping[str, Any], max_model_len: int, component: str) -> None:
    """Raise SettingsError if the component's prompts may be longer than the model's context."""
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and max_model_len > positions:
        raise SettingsError(
            f"{component}.max_model_len is {max_model_len}, but the checkpoint has {positions} "
            "positions (max_position_embeddings): lower it to that"
        )


def _check_sizes(config: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless the sizes are there, under the names of Llama's config."""
    check = SizeCheck()
    check.text_sizes(config, "config")
    heads = check.number(config, "config", "num_attention_heads")
    if config.get("num_key_value_heads") is not None:
        shared = check.number(config, "config", "num_key_value_heads")
        check.require(
            heads % shared == 0,
            f"config.num_attention_heads {heads} is not divisible by num_key_value_heads {shared}",
        )
    check.done()


def _check_weights(path: Path, config: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless the weights have the token embeddings and all layers."""
    shapes = {one.name: one.shape for one in tensor_headers(path)}
    table = int(config["vocab_size"]), int(config["hidden_size"])
    if table not in shapes.values():
        named = next((name for name in shapes if name.endswith(_TABLE)), None)
        has = f"`{named}` has shape {shapes[named]}" if named else "no weight has that shape"
        raise CheckpointError(
            f"weights in {path} lack a table of {table[0]} tokens (vocab_size) by {table[1]} "
            f"(hidden_size), as config.json requires: {has}"
        )
    layers = int(config["num_hidden_layers"])
    found = {int(number[1]) for number in map(_LAYER.search, shapes) if number}
    if missing := sorted(set(range(layers)) - found):
        raise CheckpointError(
            f"weights in {path} lack layer {missing[0]}, counted from 0, of the {layers} layers in "
            "config.json (num_hidden_layers)"
        )


def _codes(config: dict[str, Any], key: str, file: Path) -> tuple[str, ...]:
    named = config.get(key, [])
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise CheckpointError(f"{key} in {file} is {named!r}, expected codes of languages")
    return tuple(named)


# Keys of M-RoPE, and the parts of a config that have them.
MROPE_KEYS = ("mrope_section", "mrope_interleaved", "interleaved")
ROPE_CONFIGS = ("rope_scaling", "rope_parameters")


def plain_rope_config(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    """Return a text decoder's config without M-RoPE, which equals plain RoPE for audio and text."""
    values = dict(checkpoint.text_config)
    for key in ROPE_CONFIGS:
        if isinstance(found := values.get(key), dict):
            values[key] = {k: v for k, v in found.items() if k not in MROPE_KEYS}
    return values


def text_weights(checkpoint: ModelCheckpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of text model and output layer, under transformers' module names.

    The latter is empty if the output is tied to the token embeddings.
    """
    text: dict[str, Any] = {}
    head: dict[str, Any] = {}
    layout = checkpoint.layout
    for name, load in tensors_of(checkpoint.path):
        for prefixes, found in (((layout.text,), text), (layout.heads, head)):
            prefix = next((p for p in prefixes if name.startswith(p)), None)
            if prefix is not None:
                found[name.removeprefix(prefix)] = load()
    return text, head


def head_shape(checkpoint: ModelCheckpoint) -> tuple[int, ...] | None:
    """Return the shape of the output layer's weight, from the headers only; None without one."""
    names = {f"{head}weight" for head in checkpoint.layout.heads}
    headers = tensor_headers(checkpoint.path)
    return next((tensor.shape for tensor in headers if tensor.name in names), None)


def end_tokens(path: Path) -> frozenset[int]:
    """Return the tokens that end an output, from generation_config.json; none without the file.

    Raises CheckpointError if the file is unreadable or malformed.
    """
    file = path / "generation_config.json"
    if not file.is_file():
        return frozenset()
    try:
        named = json.loads(file.read_text()).get("eos_token_id")
    except (json.JSONDecodeError, AttributeError) as error:
        raise CheckpointError(f"{file} is not a JSON object: {error}") from None
    tokens = named if isinstance(named, list) else [] if named is None else [named]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in tokens):
        raise CheckpointError(f"eos_token_id in {file} is {named!r}, expected token ids")
    return frozenset(tokens)
