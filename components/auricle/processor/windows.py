"""One segment's audio as encoder windows, each with the key that determines its embeddings.

A window's key covers exactly what its embeddings depend on: the checkpoint, the
dtype, its unclamped log-mel and, only if some value lies below it, the clamp
floor (segment maximum − 8). A louder passage later therefore gives a finished
window a new key only if its features really change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auricle.audio.features import FeaturePacket
from auricle.audio.mel import CLAMP_RANGE, FFT, HOP
from auricle.audio.pcm import Int16
from auricle.checkpoint.geometry import Geometry
from auricle.errors import ProtocolError
from auricle.processor.sources import FeatureSource, PcmSource

_DIGEST_BYTES = 16
MIN_SAMPLES = FFT // 2 + 1


@dataclass(frozen=True)
class KeyScheme:
    """What all keys of a session have in common; `tenant` keeps tenants' caches apart."""

    fingerprint: str
    dtype: str
    tenant: str

    def key(self, block_hashes: list[bytes], frames: int, floor: float | None) -> str:
        """32 hex digits."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        clamp = "none" if floor is None else np.float32(floor).tobytes().hex()
        for part in (self.fingerprint, self.dtype, self.tenant, str(frames), clamp):
            digest.update(len(part).to_bytes(4, "little") + part.encode())
        for block in block_hashes:
            digest.update(block)
        return digest.hexdigest()


@dataclass(frozen=True)
class Block:
    """At most one second of a window, (n, 128) float32; `final` if it will not change."""

    key: str
    frames: npt.NDArray[np.float32]
    final: bool


@dataclass(frozen=True)
class Window:
    """`frames` (n, 128) float32 unclamped log-mel; `partial` until it is whole."""

    index: int
    key: str
    frames: npt.NDArray[np.float32]
    floor: float
    partial: bool
    embeddings: int
    blocks: tuple[Block, ...]


class SegmentAudio:
    """Samples of one open segment and their features. One owner at a time."""

    def __init__(self, geometry: Geometry, scheme: KeyScheme) -> None:
        self._geometry = geometry
        self._scheme = scheme
        self._source: PcmSource | FeatureSource = PcmSource()
        self._final_hashes: list[bytes] = []
        self._hashed_samples = 0

    @property
    def samples(self) -> int:
        """Samples received."""
        return self._source.samples

    def push(self, pcm: Int16) -> None:
        """Append 16 kHz samples; features are computed when windows are asked for."""
        if not isinstance(self._source, PcmSource):
            raise ProtocolError("samples within a segment of features")
        self._source.push(pcm)

    def push_features(self, packet: FeaturePacket) -> None:
        """Append features of the client instead of samples."""
        if isinstance(self._source, PcmSource):
            if self._source.samples:
                raise ProtocolError("features within a segment of samples")
            self._source = FeatureSource()
        self._source.push(packet)

    def pcm(self, start: int, end: int) -> Int16:
        """Samples [start, end) of the segment; none if it is of features."""
        return self._source.pcm(start, end)

    def windows(self, samples: int) -> tuple[Window, ...]:
        """Windows of the segment as if it ended after `samples` (at least 201)."""
        if samples < self._hashed_samples:
            self._final_hashes = []
        self._hashed_samples = samples
        frames, maximum = self._source.frames(samples)
        floor = float(np.float32(np.float32(maximum) - np.float32(CLAMP_RANGE)))
        hashes = self._block_hashes(frames, samples)
        span, chunk = self._geometry.window_frames, self._geometry.chunk_frames
        windows = []
        for index, start in enumerate(range(0, len(frames), span)):
            part = frames[start : start + span]
            block_hashes = hashes[start // chunk : -(-(start + len(part)) // chunk)]
            final = self._all_final(start + len(part), samples)
            windows.append(
                Window(
                    index=index,
                    key=self._key(block_hashes, part, floor),
                    frames=part,
                    floor=floor,
                    partial=len(part) < span or not final,
                    embeddings=self._geometry.embeddings(len(part)),
                    blocks=self._blocks(block_hashes, part, floor, last_final=final),
                )
            )
        return tuple(windows)

    def _blocks(
        self,
        hashes: list[bytes],
        frames: npt.NDArray[np.float32],
        floor: float,
        *,
        last_final: bool,
    ) -> tuple[Block, ...]:
        """The window in pieces of one conv chunk; only the last may still change or grow."""
        chunk = self._geometry.chunk_frames
        blocks = []
        for number, digest in enumerate(hashes):
            part = frames[number * chunk : (number + 1) * chunk]
            final = number + 1 < len(hashes) or (last_final and len(part) == chunk)
            blocks.append(Block(self._key([digest], part, floor), part, final))
        return tuple(blocks)

    def _key(self, hashes: list[bytes], frames: npt.NDArray[np.float32], floor: float) -> str:
        """The floor matters only where it changes something."""
        clamps = float(frames.min()) < floor
        return self._scheme.key(hashes, len(frames), floor if clamps else None)

    def _all_final(self, frames: int, samples: int) -> bool:
        """Whether no later sample can change the first `frames` frames."""
        return (frames - 1) * HOP + FFT // 2 <= samples

    def _block_hashes(self, frames: npt.NDArray[np.float32], samples: int) -> list[bytes]:
        """One hash per 1 s block; those of final blocks are kept."""
        chunk = self._geometry.chunk_frames
        while (end := (len(self._final_hashes) + 1) * chunk) <= len(frames) and self._all_final(
            end, samples
        ):
            self._final_hashes.append(_hash(frames[end - chunk : end]))
        rest = range(len(self._final_hashes) * chunk, len(frames), chunk)
        return [*self._final_hashes, *(_hash(frames[at : at + chunk]) for at in rest)]


def _hash(block: npt.NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(block).data, digest_size=_DIGEST_BYTES).digest()
