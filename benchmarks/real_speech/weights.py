"""The checkpoint that a command is about."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import WhisperFeatureExtractor

from auricle.checkpoints.download.pull import servable
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle_testing.checkpoints.whisper import random_english_whisper


@contextmanager
def checkpoint(model: str | None) -> Iterator[ModelCheckpoint]:
    """Yield the checkpoint of a folder or of a pulled name; without either, one of random weights.

    Raises SettingsError if it was not pulled, CheckpointError if the folder has none.
    """
    with tempfile.TemporaryDirectory() as place:
        if model is None:
            folder = Path(place) / "random"
            random_english_whisper(folder)
            WhisperFeatureExtractor().save_pretrained(folder)
            _complete(folder)
        else:
            folder = servable(Path(model), print)
        yield open_checkpoint(folder.resolve())


def _complete(folder: Path) -> None:
    """Add the generation config of published checkpoints, which transformers needs."""
    config = json.loads((folder / "config.json").read_text())
    path = folder / "generation_config.json"
    known = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    new = {name: config[name] for name in known} | {"is_multilingual": False}
    path.write_text(json.dumps(json.loads(path.read_text()) | new))
