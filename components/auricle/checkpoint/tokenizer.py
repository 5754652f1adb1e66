"""Reads a checkpoint's tokenizer, and tells the bytes of its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

from auricle.checkpoint.architectures.base import Vocabulary
from auricle.errors import CheckpointError

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_of_character() -> dict[str, int]:
    """Return the byte that each character of a token's name stands for.

    Printable bytes stand for themselves, and the others for characters from U+0100 on, as in all
    byte-level vocabularies since GPT-2's.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    shown = {chr(byte): byte for byte in printable}
    return shown | {chr(0x100 + number): byte for number, byte in enumerate(others)}


_BYTES = _byte_of_character()


def _byte_level(name: str) -> bytes:
    """Return the bytes of a token by its name in a byte-level vocabulary."""
    if all(character in _BYTES for character in name):
        return bytes(_BYTES[character] for character in name)
    return name.encode()


def _sentence_piece(name: str) -> bytes:
    """Return the bytes of a token by its name in a vocabulary of sentence pieces."""
    if (byte := _BYTE.fullmatch(name)) is not None:
        return bytes([int(byte[1], 16)])
    return name.replace("▁", " ").encode()


NAMED: dict[Vocabulary, Callable[[str], bytes]] = {
    "byte_level": _byte_level,
    "sentence_pieces": _sentence_piece,
}


def without_added_tokens(tokenizer: Any) -> Tokenizer:
    """Return a tokenizer of the same vocabulary that does not know a single control token.

    `split_special_tokens` will not do: it leaves added tokens that are not marked as special,
    and `<asr_text>` is one of them.
    """
    known = tokenizer.backend_tokenizer
    plain = Tokenizer(known.model)
    plain.normalizer = known.normalizer
    if known.pre_tokenizer is not None:
        plain.pre_tokenizer = known.pre_tokenizer
    return plain


def load_tokenizer(path: Path, vocabulary: Vocabulary = "byte_level") -> Any:
    """Return the tokenizer of a checkpoint. Raises CheckpointError if it cannot be loaded."""
    if not (path / "tokenizer_config.json").is_file():
        raise CheckpointError(f"{path} has no tokenizer_config.json")
    try:
        if vocabulary == "byte_level":
            return Qwen2Tokenizer.from_pretrained(path, local_files_only=True)
        if not (path / "tokenizer.json").is_file():
            raise CheckpointError(f"{path} has no tokenizer.json")
        return PreTrainedTokenizerFast(
            tokenizer_file=str(path / "tokenizer.json"), unk_token="<unk>", pad_token="<pad>"
        )
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the tokenizer in {path} cannot be loaded: {error}") from None
