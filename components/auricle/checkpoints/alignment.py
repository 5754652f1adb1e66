"""An aligner's checkpoint: its prompt, its classifier, and its alignment heads.

Prompt: `<|audio_start|>` audio `<|audio_end|>` and, for each word, the word followed by two
`<timestamp>`. The first predicts the begin of the word and the second its end, as classes of
`step_ms` each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.text_model import head_shape, text_weights
from auricle.checkpoints.tokenizer import load_tokenizer, without_added_tokens
from auricle.core.errors import CheckpointError

_TIMESTAMP = "<timestamp>"
_STEP_MS = 80.0
_NO_CLASSIFIER = (
    "{} is not an aligner: its weights have no classifier (thinker.lm_head.weight or score.weight)"
)


class AlignerPrompt:
    """Token ids around a segment's audio. Raises CheckpointError if it is not an aligner."""

    def __init__(self, checkpoint: ModelCheckpoint) -> None:
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
        # Without control tokens, so that a word cannot name one.
        return tuple(self._plain.encode(word, add_special_tokens=False).ids)


def is_aligner(checkpoint: ModelCheckpoint) -> bool:
    """Whether a checkpoint predicts times instead of text."""
    config = json.loads((checkpoint.path / "config.json").read_text())
    return config.get("timestamp_token_id") is not None


def class_count(checkpoint: ModelCheckpoint) -> int:
    """Return the number of classes, from the weights' headers only.

    Raises CheckpointError without a classifier.
    """
    shape = head_shape(checkpoint)
    if shape is None:
        raise CheckpointError(_NO_CLASSIFIER.format(checkpoint.path))
    return shape[0]


def classifier_weights(checkpoint: ModelCheckpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dicts of text model and classifier, under transformers' module names.

    Raises CheckpointError without a classifier: such a model writes text.
    """
    text, head = text_weights(checkpoint)
    if "weight" not in head:
        raise CheckpointError(_NO_CLASSIFIER.format(checkpoint.path))
    return text, head


def _step_ms(config: dict[str, Any], path: Path) -> float:
    """Return the duration of a class; transformers' format has it in another file."""
    value = config.get("timestamp_segment_time")
    file = path / "processor_config.json"
    if value is None and file.is_file():
        value = json.loads(file.read_text()).get("timestamp_segment_time")
    if value is None:
        return _STEP_MS
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise CheckpointError(f"timestamp_segment_time is {value!r}, expected milliseconds above 0")
    return float(value)


def alignment_heads(path: Path, layers: int, heads: int) -> dict[int, tuple[int, ...]]:
    """Return the cross-attention heads that follow the speech, by layer.

    generation_config.json names them (`alignment_heads`); by default they are all heads of the
    upper half of the layers, as in openai/whisper. Raises CheckpointError for unknown heads.
    """
    file = path / "generation_config.json"
    try:
        named = json.loads(file.read_text()).get("alignment_heads") if file.is_file() else None
        pairs = sorted({(int(layer), int(head)) for layer, head in named or ()})
    except (OSError, ValueError, TypeError, AttributeError):
        raise CheckpointError(
            f"alignment_heads in {file} is not a list of layers and heads"
        ) from None
    if not pairs:
        return {layer: tuple(range(heads)) for layer in range(layers // 2, layers)}
    found: dict[int, tuple[int, ...]] = {}
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise CheckpointError(
                f"alignment_heads in {file} has head {head} of layer {layer}, but the decoder has "
                f"{layers} layers of {heads} heads"
            )
        found[layer] = (*found.get(layer, ()), head)
    return found
