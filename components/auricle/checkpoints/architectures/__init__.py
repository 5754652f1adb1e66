"""The supported architectures; a checkpoint's config.json names its own.

To add one, see docs/adding_a_model.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auricle.checkpoints.architectures.base import Architecture
from auricle.checkpoints.architectures.gemma4 import GEMMA4
from auricle.checkpoints.architectures.qwen import QWEN2_AUDIO, QWEN3_ASR, QWEN3_OMNI
from auricle.checkpoints.architectures.whisper import WHISPER, WHISPER_ENGLISH
from auricle.core.errors import CheckpointError

ARCHITECTURES: tuple[Architecture, ...] = (
    QWEN3_ASR,
    QWEN3_OMNI,
    QWEN2_AUDIO,
    GEMMA4,
    WHISPER,
    WHISPER_ENGLISH,
)


def architecture_of(config: Mapping[str, Any], file: Path) -> Architecture:
    """Return the architecture that a config.json names by its class or by `model_type`.

    Raises CheckpointError with the supported ones. `file` is for the message.
    """
    stated = config.get("architectures")
    classes = stated if isinstance(stated, list) else []
    kind = config.get("model_type")
    for one in ARCHITECTURES:
        named = one.classes.intersection(c for c in classes if isinstance(c, str))
        if named and one.fits(config):
            return one
    for one in ARCHITECTURES:
        if not classes and kind in one.model_types and one.fits(config):
            return one
    known = "; ".join(f"{one.name}: {', '.join(sorted(one.classes))}" for one in ARCHITECTURES)
    raise CheckpointError(
        f"{file} is of a model that auricle does not know: `architectures` is {stated!r}, "
        f"`model_type` is {kind!r}. Known are: {known}"
    )
