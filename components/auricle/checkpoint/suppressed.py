"""Tokens that a checkpoint says must never be generated."""

from __future__ import annotations

import json
from pathlib import Path

from auricle.checkpoint.architectures.base import Architecture
from auricle.errors import CheckpointError


def suppressed_tokens(path: Path, architecture: Architecture, vocab_size: int) -> tuple[int, ...]:
    """Return the token ids that no answer has, ascending.

    Those of Whisper are its own list, and all timestamps, as its prompts ask for text without.
    Raises CheckpointError if generation_config.json is missing or does not name them.
    """
    if architecture.audio != "cross_attention":
        return ()
    file = path / "generation_config.json"
    try:
        config = json.loads(file.read_text())
        listed = {int(token) for token in config.get("suppress_tokens") or ()}
        first = int(config["no_timestamps_token_id"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"{file} is missing or unreadable, or has no `no_timestamps_token_id`: take the one "
            "that was published with the checkpoint"
        ) from None
    # Timestamps are the last tokens of the vocabulary.
    return tuple(sorted(listed | set(range(first, vocab_size))))
