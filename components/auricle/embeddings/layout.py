"""The layout of a slot: a header that identifies its content, then the embeddings.

NIXL does not detect stale memory (reads of reused or deregistered memory report success),
so a reader relies on key, generation and checksum alone.

Header, 64 bytes, little-endian: magic 4s · version u32 · key 24s · generation
u64 · length u32 · width u32 · item bytes u32 · crc32 u32 · 8 bytes zero.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auricle.embeddings.keys import KEY_BYTES
from auricle.errors import TransferFailed

_HEADER = struct.Struct(f"<4sI{KEY_BYTES}sQIIII8x")
HEADER_BYTES = _HEADER.size
_MAGIC, _VERSION = b"AURI", 2
_GENERATION_AT = struct.calcsize(f"<4sI{KEY_BYTES}s")
Bytes = npt.NDArray[np.uint8]
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class SlabLayout:
    """Sizes of a slot: up to `max_length` embeddings of `width` values of `item_bytes` bytes."""

    width: int
    item_bytes: int
    max_length: int

    @property
    def slot_bytes(self) -> int:
        """Size of a slot in bytes, a multiple of 64."""
        return HEADER_BYTES + -(-self.max_length * self.row_bytes // 64) * 64

    @property
    def row_bytes(self) -> int:
        """Size of one embedding in bytes."""
        return self.width * self.item_bytes

    def content_bytes(self, length: int) -> int:
        """Size of the header and `length` embeddings in bytes."""
        return HEADER_BYTES + length * self.row_bytes

    def write(self, memory: Bytes, key: str, generation: int, payload: Bytes) -> None:
        """Write header and payload into the slot `memory`.

        The payload is written first and the header last, so a torn slot never verifies. `key`
        is one of `keys.py`. Raises ValueError unless it has the size of those, and `payload` is
        1 to `max_length` embeddings.
        """
        length, rest = divmod(len(payload), self.row_bytes)
        if rest or not 0 < length <= self.max_length:
            raise ValueError(f"{len(payload)} bytes are not 1 to {self.max_length} embeddings")
        key_bytes = bytes.fromhex(key)
        if len(key_bytes) != KEY_BYTES:  # struct would pad it, and no reader would find it
            raise ValueError(f"a key of {len(key_bytes)} bytes is not one of {KEY_BYTES}")
        memory[:HEADER_BYTES] = 0
        memory[HEADER_BYTES : HEADER_BYTES + len(payload)] = payload
        header = _HEADER.pack(
            _MAGIC, _VERSION, key_bytes, generation,
            length, self.width, self.item_bytes, zlib.crc32(payload.data),
        )  # fmt: skip
        memory[:HEADER_BYTES] = np.frombuffer(header, np.uint8)

    def matches(self, memory: Bytes, key: str, generation: int, length: int) -> str | None:
        """Return None if the header has these values, else a description of the mismatch."""
        found = _HEADER.unpack(memory[:HEADER_BYTES].tobytes())
        expected = (
            _MAGIC, _VERSION, bytes.fromhex(key), generation, length, self.width, self.item_bytes,
        )  # fmt: skip
        for name, want, have in zip(
            ("magic", "version", "key", "generation", "length", "width", "item bytes"),
            expected,
            found,
            strict=False,
        ):
            if want != have:
                shown = (v.hex() if isinstance(v, bytes) else v for v in (have, want))
                return "slot header has {} {}, expected {}".format(name, *shown)
        return None

    def verify(self, memory: Bytes, key: str, generation: int, length: int) -> None:
        """Raise TransferFailed unless the header has these values and the checksum matches."""
        if (wrong := self.matches(memory, key, generation, length)) is not None:
            raise TransferFailed(wrong)
        checksum = _HEADER.unpack(memory[:HEADER_BYTES].tobytes())[-1]
        if zlib.crc32(memory[HEADER_BYTES : self.content_bytes(length)].data) != checksum:
            raise TransferFailed(f"embeddings of {key} do not match their checksum")

    def restamp(self, memory: Bytes, generation: int) -> None:
        """Replace the generation in the header, which the checksum does not cover."""
        memory[_GENERATION_AT : _GENERATION_AT + 8] = np.frombuffer(
            struct.pack("<Q", generation), np.uint8
        )
