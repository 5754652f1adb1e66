"""What a segment's audio is divided into; a window's key identifies its embeddings.

The key is a hash of everything that the embeddings depend on: the checkpoint, the dtype, the
unclamped log-mel and the clamp floor (the segment's maximum − 8). The floor is included only
if some value lies below it, so louder audio later changes the key of a finished window only
if its features change. Keys also include the tenant.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auricle.embeddings.keys import CONTENT_BYTES, tenant_mark


@dataclass(frozen=True)
class KeyScheme:
    """The part common to all keys of a session; `tenant` separates the caches of tenants."""

    fingerprint: str
    dtype: str
    tenant: str

    def key(self, block_hashes: list[bytes], frames: int, floor: float | None) -> str:
        """Return the key of `frames` frames; a `floor` of None does not clamp.

        `embeddings/keys.py` describes its form.
        """
        digest = hashlib.blake2b(digest_size=CONTENT_BYTES)
        clamp = "none" if floor is None else np.float32(floor).tobytes().hex()
        for part in (self.fingerprint, self.dtype, self.tenant, str(frames), clamp):
            digest.update(len(part).to_bytes(4, "little") + part.encode())
        for block in block_hashes:
            digest.update(block)
        return digest.hexdigest() + tenant_mark(self.tenant)


@dataclass(frozen=True)
class Block:
    """At most one second of a window: unclamped log-mel frames, (n, 128) float32.

    `final`: later audio cannot change or extend the frames.
    """

    key: str
    frames: npt.NDArray[np.float32]
    final: bool


@dataclass(frozen=True)
class Window:
    """One encoder window: `frames` are unclamped log-mel, (n, 128) float32.

    Values are clamped to at least `floor` before the encoder, which returns `embeddings` rows.
    `partial`: later audio may change or extend the frames. `context` blocks come before those of
    the window itself, which an encoder needs that has forgotten the audio before it.
    """

    index: int
    key: str
    frames: npt.NDArray[np.float32]
    floor: float
    partial: bool
    embeddings: int
    blocks: tuple[Block, ...]
    context: int = 0


def hash_of(block: npt.NDArray[np.float32]) -> bytes:
    """Return a block's hash, of its frames alone."""
    return hashlib.blake2b(np.ascontiguousarray(block).data, digest_size=CONTENT_BYTES).digest()
