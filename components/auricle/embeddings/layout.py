"""The layout of a slab: embeddings in one region, the headers that identify them in another.

NIXL does not detect stale memory (reads of reused or deregistered memory report success), so a
reader relies on the header: key, generation and checksum. A writer clears a slot's header before
it touches the embeddings and writes it after them. A reader reads the embeddings first, and the
header once they have arrived: a header with the expected generation proves that no writer had
begun to replace them. Headers are in host memory even if the embeddings are on a GPU.

Header, 64 bytes, little-endian: magic 4s · version u32 · key 24s · generation
u64 · length u32 · width u32 · item bytes u32 · crc32 u32 · has crc32 u32 · 4 bytes zero.
Embeddings written on a device have no crc32.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from auricle.core.errors import BadRequest

# Keys of windows and blocks: 32 hex digits of their content, then 16 of their tenant. Workers
# accept only keys with the mark of the request's tenant, so no request can name another tenant's
# content.

CONTENT_BYTES, _MARK_BYTES = 16, 8
KEY_BYTES = CONTENT_BYTES + _MARK_BYTES
_FORM = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
_SHOWN = 64


@lru_cache(maxsize=4096)
def tenant_mark(tenant: str) -> str:
    """Return the end of every key of this tenant, 16 hex digits."""
    return hashlib.blake2b(
        tenant.encode(), digest_size=_MARK_BYTES, person=b"auricle tenant"
    ).hexdigest()


def check_keys(keys: Iterable[str], tenant: str) -> None:
    """Raise BadRequest unless all `keys` are well-formed and belong to this tenant."""
    mark = tenant_mark(tenant)
    for key in keys:
        if not _FORM.fullmatch(key):
            raise BadRequest(f"key {key[:_SHOWN]!r} is not {2 * KEY_BYTES} hex digits")
        if not key.endswith(mark):
            raise BadRequest(f"key {key} is not one of the request's tenant")


_HEADER = struct.Struct(f"<4sI{KEY_BYTES}sQIIIII4x")
HEADER_BYTES = _HEADER.size
_MAGIC, _VERSION = b"AURI", 4
_GENERATION_AT = struct.calcsize(f"<4sI{KEY_BYTES}s")
_ALIGNMENT = 64
Bytes = npt.NDArray[np.uint8]
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class SlabLayout:
    """Sizes of a slot: up to `max_length` embeddings of `width` values of `item_bytes` bytes."""

    width: int
    item_bytes: int
    max_length: int

    @property
    def row_bytes(self) -> int:
        return self.width * self.item_bytes

    @property
    def payload_stride(self) -> int:
        """Distance in bytes between the embeddings of two slots, a multiple of 64."""
        return -(-self.max_length * self.row_bytes // _ALIGNMENT) * _ALIGNMENT

    @property
    def slot_bytes(self) -> int:
        """Size of a slot in both regions together, in bytes."""
        return self.payload_stride + HEADER_BYTES

    def payload_bytes(self, length: int) -> int:
        return length * self.row_bytes

    def content_bytes(self, length: int) -> int:
        """Size of `length` embeddings and their header in bytes, as a reader transfers them."""
        return self.payload_bytes(length) + HEADER_BYTES

    def check_payload(self, size: int) -> None:
        """Raise ValueError unless `size` bytes are 1 to `max_length` embeddings."""
        length, rest = divmod(size, self.row_bytes)
        if rest or not 0 < length <= self.max_length:
            raise ValueError(f"{size} bytes are not 1 to {self.max_length} embeddings")

    def header(self, key: str, generation: int, length: int, checksum: int | None) -> Bytes:
        """Return the header of a slot. Raises ValueError unless `key` has the size of a key."""
        key_bytes = bytes.fromhex(key)
        if len(key_bytes) != KEY_BYTES:  # struct would pad it, and no reader would find it
            raise ValueError(f"a key of {len(key_bytes)} bytes is not one of {KEY_BYTES}")
        packed = _HEADER.pack(
            _MAGIC, _VERSION, key_bytes, generation,
            length, self.width, self.item_bytes, checksum or 0, checksum is not None,
        )  # fmt: skip
        return np.frombuffer(packed, np.uint8)

    def mismatch(self, header: Bytes, key: str, generation: int, length: int) -> str | None:
        """Describe how the header differs from these values; None if it does not."""
        found = _HEADER.unpack(header.tobytes())
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

    def checksum(self, header: Bytes) -> int | None:
        """Return the crc32 in the header; None without one."""
        checksum, has_one = _HEADER.unpack(header.tobytes())[-2:]
        return int(checksum) if has_one else None

    def set_generation(self, header: Bytes, generation: int) -> None:
        header[_GENERATION_AT : _GENERATION_AT + 8] = np.frombuffer(
            struct.pack("<Q", generation), np.uint8
        )
