"""What a slot looks like in memory: a header that proves its content, then the embeddings.

NIXL does not notice stale memory (reads of reused or deregistered memory
report success), so a reader trusts only what key, generation and checksum say.

Header, 64 bytes, little-endian: magic 4s · version u32 · key 16s · generation
u64 · length u32 · width u32 · item bytes u32 · crc32 u32 · 16 bytes zero.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auricle.errors import TransferFailed

_HEADER = struct.Struct("<4sI16sQIIII16x")
HEADER_BYTES = _HEADER.size
_MAGIC, _VERSION = b"AURI", 1
_GENERATION_AT = struct.calcsize("<4sI16s")
Bytes = npt.NDArray[np.uint8]
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class SlabLayout:
    """`width` values of `item_bytes` per embedding, at most `max_length` embeddings a slot."""

    width: int
    item_bytes: int
    max_length: int

    @property
    def slot_bytes(self) -> int:
        """Slot size, a multiple of 64."""
        return HEADER_BYTES + -(-self.max_length * self.row_bytes // 64) * 64

    @property
    def row_bytes(self) -> int:
        """One embedding."""
        return self.width * self.item_bytes

    def content_bytes(self, length: int) -> int:
        """Header and `length` embeddings."""
        return HEADER_BYTES + length * self.row_bytes

    def write(self, memory: Bytes, key: str, generation: int, payload: Bytes) -> None:
        """Fill the slot `memory`: payload first, header last, so a torn slot never verifies."""
        length, rest = divmod(len(payload), self.row_bytes)
        if rest or not 0 < length <= self.max_length:
            raise ValueError(f"{len(payload)} bytes are not 1 to {self.max_length} embeddings")
        memory[:HEADER_BYTES] = 0
        memory[HEADER_BYTES : HEADER_BYTES + len(payload)] = payload
        header = _HEADER.pack(
            _MAGIC, _VERSION, bytes.fromhex(key), generation,
            length, self.width, self.item_bytes, zlib.crc32(payload.data),
        )  # fmt: skip
        memory[:HEADER_BYTES] = np.frombuffer(header, np.uint8)

    def matches(self, memory: Bytes, key: str, generation: int, length: int) -> str | None:
        """None if the header is that of (key, generation, length); else what is wrong."""
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
        """Raise TransferFailed unless header and checksum are right."""
        if (wrong := self.matches(memory, key, generation, length)) is not None:
            raise TransferFailed(wrong)
        checksum = _HEADER.unpack(memory[:HEADER_BYTES].tobytes())[-1]
        if zlib.crc32(memory[HEADER_BYTES : self.content_bytes(length)].data) != checksum:
            raise TransferFailed(f"embeddings of {key} do not match their checksum")

    def restamp(self, memory: Bytes, generation: int) -> None:
        """Give a verified slot its new owner's generation."""
        memory[_GENERATION_AT : _GENERATION_AT + 8] = np.frombuffer(
            struct.pack("<Q", generation), np.uint8
        )
