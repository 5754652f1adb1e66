"""Token ids of a demo example, in the published prompt format."""

from __future__ import annotations

from typing import Any

Tokenizer = Any


def prompt_ids(tokenizer: Tokenizer, context: str, audio_tokens: int) -> list[int]:
    """The prompt, up to the model's answer."""
    pad = tokenizer.convert_tokens_to_ids("<|audio_pad|>")
    head = f"<|im_start|>system\n{context}<|im_end|>\n<|im_start|>user\n<|audio_start|>"
    tail = "<|audio_end|><|im_end|>\n<|im_start|>assistant\n"
    return [*tokenizer(head).input_ids, *[pad] * audio_tokens, *tokenizer(tail).input_ids]


def language_ids(tokenizer: Tokenizer, name: str) -> list[int]:
    """Opening of an answer in the named language; `None` means no speech."""
    ids: list[int] = tokenizer(f"language {name}<asr_text>").input_ids
    return ids


def answer_ids(
    tokenizer: Tokenizer, words: tuple[str, ...], forced: bool, language: str = "English"
) -> tuple[list[int], list[int]]:
    """(given, learned) ids of the answer; a forced language is given, not learned."""
    opening = language_ids(tokenizer, language if words or forced else "None")
    rest = tokenizer(" ".join(words) + "<|im_end|>").input_ids
    return (opening, rest) if forced else ([], opening + rest)
