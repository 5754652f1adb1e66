"""Reads the checkpoint of a text model, such as a translator's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.checkpoint.files import fingerprint_of, weight_files
from auricle.errors import CheckpointError, SettingsError

_OF_OTHERS = ("thinker_config", "audio_config", "vision_config")


@dataclass(frozen=True)
class TextModel:
    """A checked checkpoint of a text model; `fingerprint` as of `files.Checkpoint`.

    `targets` are the languages into which it says it translates and `sources` those from which,
    as codes; empty if it does not say.
    """

    path: Path
    config: dict[str, Any]
    fingerprint: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def weight_bytes(self) -> int:
        """The size of its weights."""
        return sum(file.stat().st_size for file in weight_files(self.path))


def open_text_model(path: Path) -> TextModel:
    """Read and check a checkpoint; reads all weights once, for the fingerprint.

    Blocks for seconds: call it in a worker thread. Raises CheckpointError if a file is missing or
    unreadable, or if it is no text model's.
    """
    config = read_text_config(path)
    file = path / "config.json"
    return TextModel(
        path,
        config,
        fingerprint_of(path, weight_files(path)),
        targets=_codes(config, "translate_languages", file),
        sources=_codes(config, "translate_from", file),
    )


def read_text_config(path: Path) -> dict[str, Any]:
    """Read the config of a text model, without its weights. Raises CheckpointError as above."""
    file = path / "config.json"
    if not file.is_file():
        raise CheckpointError(f"{path} has no config.json: expected the checkpoint of a text model")
    try:
        config = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(config, dict) or not config.get("architectures"):
        raise CheckpointError(f"{file} names no architecture: expected that of a text model")
    if strange := [key for key in _OF_OTHERS if key in config]:
        raise CheckpointError(f"{file} has {strange[0]}: expected the checkpoint of a text model")
    return config


def read_targets(path: Path) -> tuple[str, ...]:
    """Return the languages into which a text model says it translates. Raises CheckpointError."""
    return _codes(read_text_config(path), "translate_languages", path / "config.json")


def check_positions(config: dict[str, Any], max_model_len: int) -> None:
    """Raise SettingsError if prompts may be longer than the model takes."""
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and max_model_len > positions:
        raise SettingsError(
            f"TranslateWorker.max_model_len is {max_model_len}, but the checkpoint has {positions} "
            "positions (max_position_embeddings): lower it to that"
        )


def _codes(config: dict[str, Any], key: str, file: Path) -> tuple[str, ...]:
    named = config.get(key, [])
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise CheckpointError(f"{key} in {file} is {named!r}, expected codes of languages")
    return tuple(named)
