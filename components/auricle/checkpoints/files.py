"""Reads a checkpoint directory: its architecture, published format, config and weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

from auricle.checkpoints.architectures import architecture_of
from auricle.checkpoints.architectures.base import Architecture, Layout
from auricle.checkpoints.geometry import Geometry
from auricle.core.errors import CheckpointError


@dataclass(frozen=True)
class CheckpointConfig:
    """The content of config.json; `languages` may be empty."""

    architecture: Architecture
    layout: Layout
    geometry: Geometry
    audio_config: dict[str, Any]
    text_config: dict[str, Any]
    languages: tuple[str, ...]


@dataclass(frozen=True)
class ModelCheckpoint(CheckpointConfig):
    """A checked checkpoint; `fingerprint` (32 hex digits) identifies its content, not its path."""

    path: Path
    fingerprint: str

    @property
    def format(self) -> str:
        return self.layout.name


def read_config(path: Path) -> CheckpointConfig:
    """Read and check the config of a checkpoint, without its weights.

    Raises CheckpointError if it is missing, unreadable or of an unknown model.
    """
    config = _read_config(path)
    file = path / "config.json"
    architecture = architecture_of(config, file)
    layout = architecture.layout_of(config)
    if layout is None:
        raise CheckpointError(
            f"{file} is not a {architecture.name} config: it has {_lacking(architecture)}"
        )
    inner = _section(config, layout.section, "config.json") if layout.section else config
    keys = ("audio_config", "text_config")
    audio, text = (inner if layout.flat else _section(inner, key, layout.name) for key in keys)
    audio = {**architecture.audio_defaults, **audio}
    text = {**architecture.text_defaults, **text}
    text |= {name: text.get(own) for name, own in architecture.text_names.items()}
    geometry = architecture.geometry(audio, text, inner.get(architecture.audio_token_key))
    languages = tuple(config.get("support_languages") or ())
    return CheckpointConfig(architecture, layout, geometry, audio, text, languages)


def _lacking(architecture: Architecture) -> str:
    wanted = [
        f"`{one.section}` ({one.name} format)"
        if one.section
        else f"`audio_config` and `text_config` ({one.name} format)"
        for one in architecture.layouts
    ]
    return f"neither {' nor '.join(wanted)}" if len(wanted) > 1 else f"no {wanted[0]}"


def open_checkpoint(path: Path) -> ModelCheckpoint:
    """Read and check a checkpoint; reads all weights once, for the fingerprint.

    Blocks for seconds: call it in a worker thread. Raises CheckpointError if a file is missing
    or unreadable, or if config and weights do not belong together.
    """
    config = read_config(path)
    weights = weight_files(path)
    _check_weights(path, config.layout, config.geometry)
    return ModelCheckpoint(**vars(config), path=path, fingerprint=fingerprint_of(path, weights))


def audio_weights(checkpoint: ModelCheckpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of encoder and projector, under transformers' module names."""
    encoder: dict[str, Any] = {}
    projector: dict[str, Any] = {}
    layout = checkpoint.layout
    for name, load in tensors_of(checkpoint.path):
        if (short := layout.in_projector(name)) is not None:
            projector[short] = load()
        elif (short := layout.in_encoder(name)) is not None:
            encoder[short] = load()
    return encoder, projector


def tensors_of(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each tensor in `path`, and a function that loads it before the next."""
    for file in weight_files(path):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is not a mapping
                yield name, partial(tensors.get_tensor, name)


def _read_config(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    if not path.is_dir():
        raise CheckpointError(f"no checkpoint directory at {path}")
    if not file.is_file():
        raise CheckpointError(f"{path} has no config.json")
    try:
        config = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return config


def _section(config: dict[str, Any], key: str, owner: str) -> dict[str, Any]:
    value = config.get(key)
    if not isinstance(value, dict):
        raise CheckpointError(f"`{key}` of the {owner} config is missing or not an object")
    return value


def weight_files(path: Path) -> list[Path]:
    """Return the files with weights, by name. Raises CheckpointError if there are none."""
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{path} has no *.safetensors weights")
    # Some are published in two precisions, such as openai/whisper-large-v3.
    whole = path / "model.safetensors"
    return [whole] if whole in files else files


class TensorHeader(NamedTuple):
    """One tensor of a weights file; `dtype` as safetensors names it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def parameters(self) -> int:
        return prod(self.shape)


def tensor_headers(path: Path) -> Iterator[TensorHeader]:
    """Yield the headers of all tensors in `path`, without reading the weights.

    Raises CheckpointError without weights, or if a file is unreadable.
    """
    for file in weight_files(path):
        try:
            with safe_open(file, framework="numpy") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - safe_open is not a mapping
                    tensor = tensors.get_slice(name)
                    yield TensorHeader(name, tensor.get_dtype(), tuple(tensor.get_shape()))
        except SafetensorError as error:
            raise CheckpointError(f"{file} is not a readable safetensors file: {error}") from None


def _check_weights(path: Path, layout: Layout, geometry: Geometry) -> None:
    text = layout.text
    expected = {
        layout.witness: (geometry.encoder_d_model,),
        layout.out: (geometry.hidden_size, geometry.projector_width),
        f"{text}embed_tokens.weight": (geometry.vocab_size, geometry.hidden_size),
        f"{text}layers.{geometry.text_layers - 1}.{layout.first_norm}": None,
    }
    found = {one.name: one.shape for one in tensor_headers(path) if one.name in expected}
    for name, shape in expected.items():
        if name not in found:
            raise CheckpointError(
                f"weights in {path} lack `{name}`, which the {layout.name} format has"
            )
        if shape is not None and found[name] != shape:
            raise CheckpointError(
                f"`{name}` has shape {found[name]}, but config.json expects {shape}"
            )


def fingerprint_of(path: Path, weights: list[Path]) -> str:
    """Return the first 128 bits of a SHA-256 over config and weights, in order of file name."""
    digest = hashlib.sha256((path / "config.json").read_bytes())
    for file in weights:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:32]
