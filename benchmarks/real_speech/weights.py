"""The checkpoint that a command is about."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import WhisperFeatureExtractor

from auricle.checkpoint.files import Checkpoint, open_checkpoint
from tests.whisper import random_english_whisper


@contextmanager
def checkpoint(model: str | None) -> Iterator[Checkpoint]:
    """Yield that of a folder in transformers' format; without one, a small one of random weights.

    Raises CheckpointError if the folder has none.
    """
    with tempfile.TemporaryDirectory() as place:
        if model is None:
            folder = Path(place) / "random"
            random_english_whisper(folder)
            WhisperFeatureExtractor().save_pretrained(folder)
        else:
            folder = Path(model)
        yield open_checkpoint(folder.resolve())
