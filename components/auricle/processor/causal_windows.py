"""Windows of a segment for an encoder that hears each position by what was before it.

A block's key is of its frames and of all blocks before it, so it determines what the encoder makes
of it. An encoder that has not kept what came before begins some blocks earlier, with nothing before
them: these have keys that say so, all but the last, on which the beginning has no influence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from auricle.audio.constants import Frames
from auricle.checkpoint.geometry import Geometry
from auricle.embeddings.keys import CONTENT_BYTES
from auricle.processor.window import Block, KeyScheme, Window, hash_of

_UNCLAMPED = -np.inf  # the floor of what is not clamped
_BEGINNING = b""


class CausalWindows:
    """The windows of one segment; those that are finished are made once. Not thread-safe."""

    def __init__(self, geometry: Geometry, scheme: KeyScheme) -> None:
        self._geometry, self._scheme = geometry, scheme
        self._blocks: list[Block] = []  # the whole ones
        self._hashes: list[bytes] = []  # of each by itself
        self._chain: list[bytes] = []  # of each and all before it
        self._windows: list[Window] = []  # the finished ones

    def of(self, frames: Frames) -> tuple[Window, ...]:
        """Return the windows of a segment's frames, each of which is final."""
        size, span = self._geometry.block_frames, self._geometry.window_frames
        for at in range(len(self._blocks) * size, len(frames) - size + 1, size):
            self._add_block(frames[at : at + size].copy())
        finished = len(frames) // span
        while len(self._windows) < finished:
            self._windows.append(self._window(len(self._windows), None))
        whole = self._windows[:finished]
        rest = len(frames) - finished * span
        if not rest:
            return tuple(whole)
        return (*whole, self._window(finished, frames[-rest:].copy()))

    def _add_block(self, frames: Frames) -> None:
        digest = hash_of(frames)
        before = self._chain[-1] if self._chain else _BEGINNING
        self._blocks.append(self._block(before, digest, frames, final=True))
        self._hashes.append(digest)
        self._chain.append(_chained(before, digest))

    def _block(self, before: bytes, digest: bytes, frames: Frames, *, final: bool) -> Block:
        return Block(self._scheme.key([before, digest], len(frames), None), frames, final)

    def _window(self, index: int, rest: Frames | None) -> Window:
        """Return a window: a whole one, or the last, of which `rest` is there."""
        size = self._geometry.block_frames
        first = index * self._geometry.window_frames // size
        count = (self._geometry.window_frames if rest is None else len(rest)) // size
        own = self._blocks[first : first + count]
        hashes = self._hashes[first : first + count]
        if rest is not None and (tail := rest[count * size :]).size:
            before = self._chain[first + count - 1] if first + count else _BEGINNING
            hashes = [*hashes, hash_of(tail)]
            own = [*own, self._block(before, hashes[-1], tail, final=False)]
        frames = rest if rest is not None else np.concatenate([block.frames for block in own])
        before = self._chain[first - 1] if first else _BEGINNING
        context = self._context(first)
        return Window(
            index=index,
            key=self._scheme.key([before, *hashes], len(frames), None),
            frames=frames,
            floor=_UNCLAMPED,
            partial=rest is not None,
            embeddings=self._geometry.embeddings(len(frames)),
            blocks=(*context, *own),
            context=len(context),
        )

    def _context(self, end: int) -> Sequence[Block]:
        """Return the blocks before block `end` that it depends on."""
        begin = end - self._geometry.context_blocks
        if begin <= 0:
            return self._blocks[:end]
        found, before = [], _BEGINNING
        for number in range(begin, end - 1):
            digest = self._hashes[number]
            frames = self._blocks[number].frames
            found.append(self._block(before, digest, frames, final=False))
            before = _chained(before, digest)
        return [*found, self._blocks[end - 1]]


def _chained(before: bytes, digest: bytes) -> bytes:
    return hashlib.blake2b(before + digest, digest_size=CONTENT_BYTES).digest()
