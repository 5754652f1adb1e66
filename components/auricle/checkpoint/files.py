"""Reads a checkpoint directory in either of the two published formats.

original       config.json with `thinker_config`, weights `thinker.audio_tower.*`, `thinker.model.*`
transformers   config.json with `audio_config`/`text_config`, weights `model.audio_tower.*`,
               `model.multi_modal_projector.*`, `model.language_model.*`
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from auricle.checkpoint.geometry import Geometry, read_geometry
from auricle.errors import CheckpointError

Format = Literal["original", "transformers"]
_AUDIO_PREFIX: dict[Format, str] = {
    "original": "thinker.audio_tower.",
    "transformers": "model.audio_tower.",
}
_PROJECTOR_PREFIX = "model.multi_modal_projector."
# proj1/proj2 of the original are linear_1/linear_2 of transformers.
_PROJECTOR_NAMES = {"proj1": "linear_1", "proj2": "linear_2"}


@dataclass(frozen=True)
class Checkpoint:
    """A checked checkpoint; `fingerprint` (32 hex digits) identifies its content, not its path."""

    path: Path
    format: Format
    geometry: Geometry
    audio_config: dict[str, Any]
    text_config: dict[str, Any]
    languages: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True)
class Config:
    """What config.json says."""

    format: Format
    geometry: Geometry
    audio: dict[str, Any]
    text: dict[str, Any]
    languages: tuple[str, ...]


def read_config(path: Path) -> Config:
    """Read and check the config of a checkpoint, without its weights.

    Raises CheckpointError if it is missing or unreadable, or of another model.
    """
    config = _read_config(path)
    if "thinker_config" in config:
        kind: Format = "original"
        inner = _section(config, "thinker_config", "config.json")
    elif "audio_config" in config and "text_config" in config:
        kind, inner = "transformers", config
    else:
        raise CheckpointError(
            f"{path / 'config.json'} is not a Qwen3-ASR config: it has neither `thinker_config` "
            "(original format) nor `audio_config` and `text_config` (transformers format)"
        )
    audio, text = _section(inner, "audio_config", kind), _section(inner, "text_config", kind)
    geometry = read_geometry(audio, text, inner.get("audio_token_id"))
    languages = tuple(config.get("support_languages") or ())
    return Config(kind, geometry, audio, text, languages)


def open_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint; reads all weights once, for the fingerprint.

    Blocks for seconds: call it in a worker thread. Raises CheckpointError if a file is missing
    or unreadable, or if config and weights do not belong together.
    """
    config = read_config(path)
    weights = weight_files(path)
    _check_weights(path, weights, config.format, config.geometry)
    return Checkpoint(
        path=path,
        format=config.format,
        geometry=config.geometry,
        audio_config=config.audio,
        text_config=config.text,
        languages=config.languages,
        fingerprint=_fingerprint(path, weights),
    )


def audio_weights(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of encoder and projector, under transformers' module names."""
    encoder: dict[str, Any] = {}
    projector: dict[str, Any] = {}
    prefix = _AUDIO_PREFIX[checkpoint.format]
    for file in weight_files(checkpoint.path):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is not a mapping
                if name.startswith(_PROJECTOR_PREFIX):
                    projector[name.removeprefix(_PROJECTOR_PREFIX)] = tensors.get_tensor(name)
                elif name.startswith(prefix):
                    short = name.removeprefix(prefix)
                    part, _, rest = short.partition(".")
                    if part in _PROJECTOR_NAMES:
                        projector[f"{_PROJECTOR_NAMES[part]}.{rest}"] = tensors.get_tensor(name)
                    else:
                        encoder[short] = tensors.get_tensor(name)
    return encoder, projector


def in_encoder(name: str, kind: Format) -> bool:
    """Whether a tensor is of the audio encoder or its projector, not of the decoder."""
    return name.startswith((_AUDIO_PREFIX[kind], _PROJECTOR_PREFIX))


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
    return files


def _check_weights(path: Path, files: list[Path], kind: Format, geometry: Geometry) -> None:
    """Check the tensors that tell whether config and weights belong together."""
    text = "thinker.model." if kind == "original" else "model.language_model."
    audio = _AUDIO_PREFIX[kind]
    out = f"{audio}proj2.weight" if kind == "original" else f"{_PROJECTOR_PREFIX}linear_2.weight"
    expected = {
        f"{audio}ln_post.weight": (geometry.encoder_d_model,),
        out: (geometry.hidden_size, geometry.encoder_d_model),
        f"{text}embed_tokens.weight": (geometry.vocab_size, geometry.hidden_size),
        f"{text}layers.{geometry.text_layers - 1}.mlp.down_proj.weight": None,
    }
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in expected.keys() & set(tensors.keys()):
                    found[name] = tuple(tensors.get_slice(name).get_shape())
        except SafetensorError as error:
            raise CheckpointError(f"{file} is not a readable safetensors file: {error}") from None
    for name, shape in expected.items():
        if name not in found:
            raise CheckpointError(f"weights in {path} lack `{name}`, which the {kind} format has")
        if shape is not None and found[name] != shape:
            raise CheckpointError(f"`{name}` has shape {found[name]}, but config.json says {shape}")


def _fingerprint(path: Path, weights: list[Path]) -> str:
    """Return the first 128 bits of a SHA-256 over config and weights, in order of file name."""
    digest = hashlib.sha256((path / "config.json").read_bytes())
    for file in weights:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:32]
