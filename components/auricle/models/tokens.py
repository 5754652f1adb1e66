"""What published CTranslate2 folders lack in tokenizer.json, restored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from auricle.errors import CheckpointError

_BYTES = 256  # the first entries of the vocabulary, which no merge makes
_MERGES = 50000
_LANGUAGE = re.compile(r"<\|[a-z]{2,3}\|>")
NO_TIMESTAMPS, START, END = "<|notimestamps|>", "<|startoftranscript|>", "<|endoftext|>"
PREVIOUS, TRANSCRIBE, TRANSLATE = "<|startofprev|>", "<|transcribe|>", "<|translate|>"


def special_ids(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of special tokens. Raises CheckpointError if one is missing."""
    ids = {token["content"]: int(token["id"]) for token in tokenizer["added_tokens"]}
    for name in (NO_TIMESTAMPS, START, END, PREVIOUS, TRANSCRIBE, TRANSLATE):
        if name not in ids:
            raise CheckpointError(f"tokenizer.json lacks the token {name}")
    return ids


def language_ids(ids: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of the tokens of languages, in order."""
    between = {name: at for name, at in ids.items() if ids[START] < at < ids[TRANSLATE]}
    return {name: at for name, at in between.items() if _LANGUAGE.fullmatch(name)}


def completed(tokenizer: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """Return tokenizer.json with timestamps up to `vocabulary` tokens, and with all merges."""
    ids = special_ids(tokenizer)
    first, there = ids[NO_TIMESTAMPS] + 1, set(ids.values())
    timestamps = [
        {
            "id": first + step,
            "content": f"<|{step * 0.02:.2f}|>",
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False),
        }
        for step in range(vocabulary - first)
        if first + step not in there
    ]
    model = tokenizer["model"]
    return {
        **tokenizer,
        "added_tokens": [*tokenizer["added_tokens"], *timestamps],
        "model": {**model, "merges": all_merges(model["vocab"], model["merges"])},
    }


def all_merges(vocab: Mapping[str, int], merges: list[Any]) -> list[Any]:
    """Return the merges with those that are missing, where the vocabulary leaves no choice.

    Token 256 + i is what merge i makes. Published files lack the first, whose token is " t": all
    words that begin with it would be spelt otherwise than the model learnt.
    """
    pairs = [merge.split(" ") if isinstance(merge, str) else list(merge) for merge in merges]
    made = {"".join(pair) for pair in pairs}
    for token, at in sorted(vocab.items(), key=lambda item: item[1]):
        if not _BYTES <= at < _BYTES + _MERGES or token in made:
            continue
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [pair for pair in halves if all(vocab.get(half, at) < at for half in pair)]
        if len(known) == 1 and at - _BYTES <= len(pairs):
            pairs.insert(at - _BYTES, list(known[0]))
    if not merges or isinstance(merges[0], str):
        return [" ".join(pair) for pair in pairs]
    return pairs
