"""One segment's audio as encoder windows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import FFT, HOP, Frames
from auricle.audio.features import FeaturePacket
from auricle.audio.mel import CLAMP_RANGE
from auricle.audio.pcm import Int16
from auricle.checkpoint.geometry import Geometry
from auricle.checkpoint.whole_chunks import SILENT, silence_floor
from auricle.errors import ProtocolError
from auricle.processor.causal_windows import CausalWindows
from auricle.processor.chunks import ChunkedMel
from auricle.processor.sources import FeatureSource, PcmSource
from auricle.processor.window import Block, KeyScheme, Window, hash_of

__all__ = ["MIN_SAMPLES", "Block", "KeyScheme", "SegmentAudio", "Window"]
MIN_SAMPLES = FFT // 2 + 1


class SegmentAudio:
    """The samples or features of one open segment, and its windows.

    Not thread-safe. `windows` computes log-mel, and is called in a worker thread if that takes
    long; nothing may be appended before it has returned.
    """

    def __init__(self, geometry: Geometry, scheme: KeyScheme) -> None:
        self._geometry = geometry
        self._scheme = scheme
        self._source: PcmSource | FeatureSource = PcmSource(geometry.front_end, geometry.mel_bins)
        self._causal = CausalWindows(geometry, scheme)
        self._chunks = ChunkedMel(geometry.window_samples, geometry.lookahead, geometry.mel_bins)
        self._final_hashes: list[bytes] = []
        self._hashed_samples = 0

    def encoded_by(self, geometry: Geometry, scheme: KeyScheme) -> SegmentAudio:
        """Return the same audio as windows of another checkpoint.

        Features are computed once if they are the same. Of the two one may be used at a time, and
        nothing may be appended any more.
        """
        other = SegmentAudio(geometry, scheme)
        if geometry == self._geometry:
            other._chunks = self._chunks
        same = (geometry.front_end, geometry.mel_bins)
        if same == (self._geometry.front_end, self._geometry.mel_bins):
            other._source = self._source
        else:
            other.push(self.pcm(0, self.samples))
        return other

    @property
    def samples(self) -> int:
        """The number of samples received."""
        return self._source.samples

    @property
    def encodes_ahead(self) -> bool:
        """Whether finished blocks can be encoded before the windows that they are part of."""
        return self._geometry.encodes_blocks and not self._geometry.context_blocks

    @property
    def computed(self) -> int:
        """The number of samples at the last call of `windows`: their final frames are known."""
        return self._hashed_samples

    def push(self, pcm: Int16) -> None:
        """Append 16 kHz mono samples. Raises ProtocolError in a segment of features.

        The features are computed by `windows`.
        """
        if not isinstance(self._source, PcmSource):
            raise ProtocolError("samples within a segment of features")
        self._source.push(pcm)

    def push_features(self, packet: FeaturePacket) -> None:
        """Append features from the client.

        Raises ProtocolError in a segment of samples, or if the model wants other features.
        """
        if self._geometry.front_end != "whisper":
            raise ProtocolError(
                "this server's model takes other features than those of a whole segment: "
                "send samples"
            )
        if isinstance(self._source, PcmSource):
            if self._source.samples:
                raise ProtocolError("features within a segment of samples")
            self._source = FeatureSource()
        self._source.push(packet)

    def pcm(self, start: int, end: int) -> Int16:
        """Return samples [start, end) of the segment; none if it consists of features."""
        return self._source.pcm(start, end)

    def windows(self, samples: int) -> tuple[Window, ...]:
        """Return the segment's windows as if it ended after `samples` (at least 201)."""
        if self._geometry.front_end == "whisper_by_window":
            return self._whole_chunks(samples)
        if self._geometry.context_blocks:
            self._hashed_samples = samples
            return self._causal.of(self._source.frames(samples)[0])
        if samples < self._hashed_samples:
            self._final_hashes = []
        self._hashed_samples = samples
        frames, maximum = self._source.frames(samples)
        floor = _floor(maximum)
        hashes = self._block_hashes(frames, samples)
        span, size = self._geometry.window_frames, self._geometry.block_frames
        windows = []
        for index, start in enumerate(range(0, len(frames), span)):
            part = frames[start : start + span]
            block_hashes = hashes[start // size : -(-(start + len(part)) // size)]
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

    def _whole_chunks(self, samples: int) -> tuple[Window, ...]:
        """Return chunks whose features are computed by themselves, each a window."""
        self._hashed_samples = samples
        windows = []
        for index, chunk in enumerate(self._chunks.until(samples, self._source.pcm)):
            if not self._geometry.embeddings(len(chunk.frames)):
                continue  # the beginning of a chunk, of a few milliseconds
            floor, frames = _floor(chunk.maximum), self._geometry.with_silence(chunk.frames)
            partial = chunk.samples < self._geometry.window_samples
            windows.append(self._chunk(index, frames, floor, chunk.samples, partial=partial))
            if len(frames) < self._geometry.window_frames and self._geometry.hears_silence:
                windows.append(self._silence(index + 1, silence_floor(floor)))
        return tuple(windows)

    def _chunk(
        self, index: int, frames: Frames, floor: float, samples: int, *, partial: bool
    ) -> Window:
        """Return a chunk as a window; frames within its `samples` are final."""
        blocks, hashes = [], []
        for at in range(0, len(frames), self._geometry.block_frames):
            part = frames[at : at + self._geometry.block_frames]
            hashes.append(hash_of(part))
            final = len(part) == self._geometry.block_frames
            final = final and self._all_final(at + len(part), samples)
            blocks.append(Block(self._key([hashes[-1]], part, floor), part, final))
        return Window(
            index=index,
            key=self._key(hashes, frames, floor),
            frames=frames,
            floor=floor,
            partial=partial,
            embeddings=self._geometry.embeddings(len(frames)),
            blocks=tuple(blocks),
        )

    def _silence(self, index: int, floor: float) -> Window:
        """Return a whole chunk of silence as a window, which all sessions of a tenant share."""
        geometry = self._geometry
        frames = np.full((geometry.window_frames, geometry.mel_bins), SILENT, np.float32)
        return self._chunk(index, frames, floor, geometry.window_frames * HOP + FFT, partial=False)

    def _blocks(
        self,
        hashes: list[bytes],
        frames: npt.NDArray[np.float32],
        floor: float,
        *,
        last_final: bool,
    ) -> tuple[Block, ...]:
        """Split a window into blocks of one second; all but the last are final."""
        size = self._geometry.block_frames
        blocks = []
        for number, digest in enumerate(hashes):
            part = frames[number * size : (number + 1) * size]
            final = number + 1 < len(hashes) or (last_final and len(part) == size)
            blocks.append(Block(self._key([digest], part, floor), part, final))
        return tuple(blocks)

    def _key(self, hashes: list[bytes], frames: npt.NDArray[np.float32], floor: float) -> str:
        """Return the key of `frames`; the floor is included only if it changes a value."""
        clamps = float(frames.min()) < floor
        return self._scheme.key(hashes, len(frames), floor if clamps else None)

    def _all_final(self, frames: int, samples: int) -> bool:
        """Return whether no sample after `samples` can change the first `frames` frames."""
        return (frames - 1) * HOP + FFT // 2 <= samples

    def _block_hashes(self, frames: npt.NDArray[np.float32], samples: int) -> list[bytes]:
        """Return one hash per 1 s block; the hashes of final blocks are computed once."""
        size = self._geometry.block_frames
        while (end := (len(self._final_hashes) + 1) * size) <= len(frames) and self._all_final(
            end, samples
        ):
            self._final_hashes.append(hash_of(frames[end - size : end]))
        rest = range(len(self._final_hashes) * size, len(frames), size)
        return [*self._final_hashes, *(hash_of(frames[at : at + size]) for at in rest)]


def _floor(maximum: float) -> float:
    """Return what the values below are raised to."""
    return float(np.float32(np.float32(maximum) - np.float32(CLAMP_RANGE)))
