"""Token ids of an aligner's prompt, in the published format."""

from __future__ import annotations

from collections.abc import Sequence

from models.training.prompts import Tokenizer

TIMESTAMP = "<timestamp>"


def prompt_ids(tokenizer: Tokenizer, words: Sequence[str], audio_tokens: int) -> list[int]:
    """`<|audio_start|>` audio `<|audio_end|>` and each word, followed by two `<timestamp>`."""
    pad = tokenizer.convert_tokens_to_ids("<|audio_pad|>")
    start, end, stamp = (
        tokenizer.convert_tokens_to_ids(token)
        for token in ("<|audio_start|>", "<|audio_end|>", TIMESTAMP)
    )
    ids = [start, *[pad] * audio_tokens, end]
    for word in words:
        ids += [*tokenizer(word).input_ids, stamp, stamp]
    return ids
