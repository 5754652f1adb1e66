"""A checkpoint's tokenizer, from tokenizer.json, or Qwen2's with the published vocabulary.

transformers' class gives the same tokens, but imports PyTorch, which a processor does not need:
three seconds of each start, and 200 MB of memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from auricle.checkpoints.architectures.base import Vocabulary
from auricle.core.errors import CheckpointError

# Qwen2's pre-tokenization, which no published file contains for models without tokenizer.json.
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Keys of control tokens in tokenizer_config.json.
_NAMED = ("bos_token", "eos_token", "pad_token", "unk_token")
_MORE = ("additional_special_tokens", "extra_special_tokens")


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of the checkpoint in the folder `path`, control tokens included.

    Raises CheckpointError if it is missing or unreadable.
    """
    file = path / "tokenizer_config.json"
    if not file.is_file():
        raise CheckpointError(f"{path} has no tokenizer_config.json")
    try:
        config = json.loads(file.read_text())
        whole = path / "tokenizer.json"
        if whole.is_file():
            tokenizer = Tokenizer.from_file(str(whole))
        else:
            tokenizer = _byte_level(path, prefix_space=bool(config.get("add_prefix_space")))
        added = _added_tokens(config) or _added_in(whole)
        _add(tokenizer, added, _control_tokens(config))
    except CheckpointError:
        raise
    except Exception as error:  # the library raises bare exceptions
        raise CheckpointError(f"the tokenizer in {path} cannot be loaded: {error}") from None
    return tokenizer


def control_token_names(path: Path) -> frozenset[str]:
    """Return the added tokens of the checkpoint in the folder `path`.

    Takes milliseconds, as the vocabulary is not read. Raises CheckpointError as above.
    """
    try:
        config = json.loads((path / "tokenizer_config.json").read_text())
        added = _added_tokens(config) or _added_in(path / "tokenizer.json")
        return frozenset(str(token["content"]) for token in added.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"the tokenizer in {path} cannot be read: {error}") from None


def without_added_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer of the same vocabulary without control tokens.

    `encode_special_tokens` is not enough: it keeps added tokens that are not marked as special,
    such as `<asr_text>`.
    """
    plain = Tokenizer(tokenizer.model)
    plain.normalizer, plain.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    return plain


def _byte_level(path: Path, *, prefix_space: bool) -> Tokenizer:
    """Return Qwen2's tokenizer with the vocabulary and the merges in `path`."""
    vocabulary, merges = path / "vocab.json", path / "merges.txt"
    for file in (vocabulary, merges):
        if not file.is_file():
            raise CheckpointError(f"{path} has neither tokenizer.json nor {file.name}")
    tokenizer = Tokenizer(BPE.from_file(str(vocabulary), str(merges)))
    tokenizer.normalizer = normalizers.NFC()
    pieces = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, in_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _added_in(whole: Path) -> dict[int, Any]:
    described = json.loads(whole.read_text()) if whole.is_file() else {}
    return {token["id"]: token for token in described.get("added_tokens", ())}


def _added_tokens(config: dict[str, Any]) -> dict[int, Any]:
    return {int(number): token for number, token in config.get("added_tokens_decoder", {}).items()}


def _control_tokens(config: dict[str, Any]) -> set[str]:
    """Return the tokens that decoded text leaves out because of their use."""
    named = [config.get(key) for key in _NAMED]
    for key in _MORE:
        more = config.get(key) or ()
        named += more.values() if isinstance(more, dict) else more
    return {token["content"] if isinstance(token, dict) else token for token in named if token}


def _add(tokenizer: Tokenizer, added: dict[int, Any], control: set[str]) -> None:
    """Add tokens in the order of their ids. Raises CheckpointError if one gets another id."""
    ordered = sorted(added.items())
    # All at once: a call takes time linear in all tokens, and Whisper has 1,600.
    tokenizer.add_tokens(
        [
            AddedToken(
                token["content"],
                single_word=token["single_word"],
                lstrip=token["lstrip"],
                rstrip=token["rstrip"],
                normalized=token["normalized"],
                special=token["special"] or token["content"] in control,
            )
            for _, token in ordered
        ]
    )
    for number, token in ordered:
        if (given := tokenizer.token_to_id(token["content"])) != number:
            raise CheckpointError(
                f"the tokenizer's {token['content']} is {given} after its vocabulary, but {number} "
                "in its files"
            )


_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_of_character() -> dict[str, int]:
    """Return the byte of each character in token names, as in GPT-2's byte-level vocabulary.

    Printable bytes are themselves, the others characters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    shown = {chr(byte): byte for byte in printable}
    return shown | {chr(0x100 + number): byte for number, byte in enumerate(others)}


_BYTES = _byte_of_character()


def _token_bytes_byte_level(name: str) -> bytes:
    if all(character in _BYTES for character in name):
        return bytes(_BYTES[character] for character in name)
    return name.encode()


def _sentence_piece(name: str) -> bytes:
    if (byte := _BYTE.fullmatch(name)) is not None:
        return bytes([int(byte[1], 16)])
    return name.replace("▁", " ").encode()


NAMED: dict[Vocabulary, Callable[[str], bytes]] = {
    "byte_level": _token_bytes_byte_level,
    "sentence_pieces": _sentence_piece,
}
