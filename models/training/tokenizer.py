"""The demo tokenizer: Qwen2-style byte-level BPE in which every demo word is one token.

Files and special tokens are the same as in the published checkpoints
(vocab.json, merges.txt, tokenizer_config.json), so the same loading code reads both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from models.training.sentences import vocabulary

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<asr_text>",
)
_AUDIO_TOKENS = {
    "audio_token": "<|audio_pad|>",
    "audio_bos_token": "<|audio_start|>",
    "audio_eos_token": "<|audio_end|>",
}
_NOT_SPECIAL_IN_TEXT = frozenset({"<asr_text>"})
# The pre-tokenisation pattern of the Qwen2 tokenizer.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write_tokenizer(
    directory: Path,
    known: Sequence[str] | None = None,
    special: Sequence[str] = SPECIAL_TOKENS,
    names: Sequence[str] = ("English",),
) -> None:
    """Train on `known` words (the demo's, if None) and write the tokenizer's files.

    `names` are the names of the languages.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_regex(), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    words = [*(known or vocabulary()), "language", "system", "user", "assistant", *names, "None"]
    trainer = trainers.BpeTrainer(
        vocab_size=100_000,
        min_frequency=1,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    bpe.train_from_iterator([form for word in words for form in (word, f" {word}")], trainer)
    model = json.loads(bpe.to_str())["model"]
    vocab: dict[str, int] = model["vocab"]
    added = {str(len(vocab) + at): _added(token) for at, token in enumerate(special)}
    (directory / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": [t for t in special if t not in _NOT_SPECIAL_IN_TEXT],
        "extra_special_tokens": {key: t for key, t in _AUDIO_TOKENS.items() if t in special},
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "model_max_length": 4096,
        "split_special_tokens": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _regex() -> object:
    from tokenizers import Regex

    return Regex(_SPLIT)


def _added(token: str) -> dict[str, object]:
    return {
        "content": token,
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": token not in _NOT_SPECIAL_IN_TEXT,
    }
