"""What an aligner's checkpoint has beside an encoder and a text model: its classes and prompt.

Prompt: `<|audio_start|>` audio `<|audio_end|>` and, for each word, the word followed by two
`<timestamp>`: at the first the model says where the word begins, at the second where it ends, as
a class of `step_ms` each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.text_weights import head_shape, text_weights
from auricle.checkpoint.tokenizer import load_tokenizer, without_added_tokens
from auricle.errors import CheckpointError

_TIMESTAMP = "<timestamp>"
_STEP_MS = 80.0
_NO_CLASSIFIER = (
    "{} is not an aligner: its weights have no classifier (thinker.lm_head.weight or score.weight)"
)


class AlignerPrompt:
    """Token ids around a segment's audio.

    Raises CheckpointError if the checkpoint is no aligner's.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._path = checkpoint.path
        tokenizer = load_tokenizer(checkpoint.path)
        self._plain = without_added_tokens(tokenizer)
        config = json.loads((checkpoint.path / "config.json").read_text())

        def special(token: str) -> int:
            number: int | None = tokenizer.token_to_id(token)
            if number is None:
                raise CheckpointError(f"{self._path} is not an aligner: no token {token}")
            return number

        self.begin, self.end = special("<|audio_start|>"), special("<|audio_end|>")
        self.timestamp = special(_TIMESTAMP)
        named = config.get("timestamp_token_id")
        if named is not None and named != self.timestamp:
            raise CheckpointError(
                f"the tokenizer's {_TIMESTAMP} is {self.timestamp}, but config.json's "
                f"timestamp_token_id is {named!r}"
            )
        self.step_ms = _step_ms(config, checkpoint.path)
        self._word = lru_cache(maxsize=16384)(self._tokenized)

    def after_audio(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the token ids that follow the audio; each word ends in two timestamps."""
        ids = [self.end]
        for word in words:
            ids += [*self._word(word), self.timestamp, self.timestamp]
        return tuple(ids)

    def _tokenized(self, word: str) -> tuple[int, ...]:
        # A word cannot name a control token: it is tokenized without them.
        return tuple(self._plain.encode(word, add_special_tokens=False).ids)


def is_aligner(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint says that it gives times, not text."""
    config = json.loads((checkpoint.path / "config.json").read_text())
    return config.get("timestamp_token_id") is not None


def class_count(checkpoint: Checkpoint) -> int:
    """Return how many classes of `step_ms` there are, by the weights' headers alone.

    Raises CheckpointError if there is no classifier.
    """
    shape = head_shape(checkpoint)
    if shape is None:
        raise CheckpointError(_NO_CLASSIFIER.format(checkpoint.path))
    return shape[0]


def classifier_weights(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of text model and classifier, under transformers' module names.

    Raises CheckpointError if there is no classifier: then it is a model that writes text.
    """
    text, head = text_weights(checkpoint)
    if "weight" not in head:
        raise CheckpointError(_NO_CLASSIFIER.format(checkpoint.path))
    return text, head


def _step_ms(config: dict[str, Any], path: Path) -> float:
    """Return the duration of a class; it is in another file in transformers' format."""
    value = config.get("timestamp_segment_time")
    file = path / "processor_config.json"
    if value is None and file.is_file():
        value = json.loads(file.read_text()).get("timestamp_segment_time")
    if value is None:
        return _STEP_MS
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise CheckpointError(f"timestamp_segment_time is {value!r}, expected milliseconds above 0")
    return float(value)
