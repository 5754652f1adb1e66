"""The bytes of tokens by their names, in both kinds of vocabulary."""

from __future__ import annotations

import re
from collections.abc import Callable

from auricle.checkpoint.architectures.base import Vocabulary

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
