"""One segment's audio as encoder windows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import BINS, FFT, HOP, Frames
from auricle.audio.features import FeaturePacket, final_frames
from auricle.audio.mel import CLAMP_RANGE, IncrementalLogMel, SemicausalLogMel
from auricle.audio.pcm import Int16, to_float
from auricle.checkpoints.geometry import FrontEnd, Geometry
from auricle.checkpoints.whole_chunks import SILENT, silence_floor
from auricle.core.errors import ProtocolError
from auricle.embeddings.layout import CONTENT_BYTES, tenant_mark

# A segment's audio is divided into windows, and a window's key identifies its embeddings.
#
# The key is a hash of everything that the embeddings depend on: the checkpoint, the dtype, the
# unclamped log-mel and the clamp floor (the segment's maximum − 8). The floor is included only if
# some value lies below it, so louder audio later changes the key of a finished window only if its
# features change. Keys also include the tenant.


@dataclass(frozen=True)
class KeyScheme:
    """The part common to all keys of a session; `tenant` separates the caches of tenants."""

    fingerprint: str
    dtype: str
    tenant: str

    def key(self, block_hashes: list[bytes], frames: int, floor: float | None) -> str:
        """Return the key of `frames` frames; a `floor` of None does not clamp.

        `embeddings/layout.py` describes its form.
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
    `partial`: later audio may change or extend the frames. The first `context` blocks are earlier
    audio, for an encoder that has evicted it.
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


class BlockHashes:
    """Hashes of consecutive blocks of `size` frames. A final block is hashed once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._final: list[bytes] = []

    def of(self, frames: Frames, final: int) -> list[bytes]:
        """Return a hash of each block. The last block may be shorter.

        Later audio cannot change the first `final` frames.
        """
        size = self._size
        whole = min(final, len(frames)) // size
        del self._final[whole:]  # a cut lies before the last decode
        for at in range(len(self._final) * size, whole * size, size):
            self._final.append(hash_of(frames[at : at + size]))
        rest = range(whole * size, len(frames), size)
        return [*self._final, *(hash_of(frames[at : at + size]) for at in rest)]


# Windows of a segment for a causal encoder.
#
# A block's key covers its frames and all earlier blocks, so it determines the encoder's output. An
# encoder that has evicted its state restarts some blocks earlier, without earlier audio. The keys
# of these blocks differ for that reason, except for the last one, whose output does not depend on
# the start.

_UNCLAMPED = -np.inf
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
        """Return the windows of a segment's frames, all final."""
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
        """Return a whole window, or the last one with the frames `rest`."""
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


# Features of a segment in chunks of fixed length, each computed as if silence followed it.


@dataclass(frozen=True)
class MelChunk:
    """What there is of a chunk: `samples`, unclamped log-mel (frames, bins), and its maximum.

    `frames` are one for each 10 ms begun, and the lookahead.
    """

    samples: int
    frames: Frames
    maximum: float


class ChunkedMel:
    """Computes the features of a segment's chunks, each whole chunk once.

    `size` is a chunk's in samples, `lookahead` in frames, `bins` the width of a frame. Not
    thread-safe.
    """

    def __init__(self, size: int, lookahead: int, bins: int) -> None:
        self._size, self._lookahead, self._bins = size, lookahead, bins
        self._whole: list[MelChunk] = []
        self._mel = IncrementalLogMel(bins)  # of the chunk after these

    def until(self, samples: int, pcm: Callable[[int, int], Int16]) -> Iterator[MelChunk]:
        """Yield the chunks as if the segment ended after `samples`; `pcm` returns a part of it."""
        whole, rest = divmod(samples, self._size)
        if whole < len(self._whole) or (rest < self._mel.samples and whole == len(self._whole)):
            # A cut lies before the last decode.
            self._whole, self._mel = self._whole[:whole], IncrementalLogMel(self._bins)
        while len(self._whole) < whole:
            self._whole.append(self._computed(self._size, pcm))
            self._mel = IncrementalLogMel(self._bins)
        yield from self._whole
        if rest:
            yield self._computed(rest, pcm)

    def _computed(self, samples: int, pcm: Callable[[int, int], Int16]) -> MelChunk:
        start = len(self._whole) * self._size
        self._mel.push(to_float(pcm(start + self._mel.samples, start + samples)))
        silence = self._size - samples
        frames, maximum = self._mel.before_silence(samples, silence, self._lookahead)
        return MelChunk(samples, frames, maximum)


# The sources of a segment's features: computed from samples, or received from the client.


class _Growing:
    """An array that grows at its end, in amortized linear time."""

    def __init__(self, empty: npt.NDArray[Any]) -> None:
        self._values = empty
        self._length = len(empty)

    def put(self, at: int, values: npt.NDArray[Any]) -> None:
        """Replace everything from index `at` on, which is at most the length."""
        self._length = at + len(values)
        if self._length > len(self._values):
            larger = np.empty((2 * self._length, *self._values.shape[1:]), self._values.dtype)
            larger[:at] = self._values[:at]
            self._values = larger
        self._values[at : self._length] = values

    @property
    def values(self) -> npt.NDArray[Any]:
        """A view of the values; later calls of `put` may change it."""
        return self._values[: self._length]


class _LogMel(Protocol):
    """Computes the frames of a segment as it grows."""

    @property
    def samples(self) -> int: ...

    def push(self, pcm: npt.NDArray[np.float32]) -> None: ...

    def frames(self, samples: int) -> tuple[Frames, float]: ...


def _log_mel(front_end: FrontEnd, bins: int) -> _LogMel:
    return SemicausalLogMel() if front_end == "semicausal" else IncrementalLogMel(bins)


class PcmSource:
    """Computes log-mel frames from the segment's samples. One user at a time."""

    def __init__(self, front_end: FrontEnd = "whisper", bins: int = BINS) -> None:
        self._front_end, self._bins = front_end, bins
        self._mel = _log_mel(front_end, bins)
        self._pcm = _Growing(np.zeros(0, np.int16))
        self.samples = 0

    def push(self, pcm: Int16) -> None:
        """Append 16 kHz mono samples."""
        self._pcm.put(self.samples, pcm)
        self.samples += len(pcm)

    def pcm(self, start: int, end: int) -> Int16:
        """Return samples [start, end) of the segment."""
        return self._pcm.values[start:end]

    def frames(self, samples: int) -> tuple[Frames, float]:
        """Return the frames as if the segment ended after `samples`, and their maximum.

        The frames are unclamped log-mel, (samples // 160, bins) float32.
        """
        if samples < self._mel.samples:
            # A cut lies before the last decode: the maximum must not include later audio.
            self._mel = _log_mel(self._front_end, self._bins)
        self._mel.push(to_float(self.pcm(self._mel.samples, samples)))
        return self._mel.frames(samples)


class FeatureSource:
    """Collects the log-mel frames that the client sent. One user at a time."""

    def __init__(self) -> None:
        self._frames = _Growing(np.zeros((0, BINS), np.float32))
        # By the end of a packet in samples: its last frames, which the next packet replaces. A
        # decode at that end uses them, as if no audio had followed.
        self._at_ends: dict[int, Frames] = {}
        self.samples = 0

    def push(self, packet: FeaturePacket) -> None:
        """Append the next packet; its frames replace those from `first_frame` on."""
        self._frames.put(packet.first_frame, packet.frames)
        self.samples = packet.samples
        self._at_ends[packet.samples] = self._frames.values[final_frames(packet.samples) :].copy()

    def pcm(self, _start: int, _end: int) -> Int16:
        """Return no samples: the client sent features only."""
        return np.zeros(0, np.int16)

    def frames(self, samples: int) -> tuple[Frames, float]:
        """As `PcmSource.frames`; exact if a packet ended at `samples`."""
        frames: Frames = self._frames.values[: samples // HOP].copy()  # the last are replaced later
        changed = self._at_ends.get(samples)
        if changed is not None and len(changed):
            frames = np.concatenate([frames[: -len(changed)], changed])
        return frames, float(frames.max())


MIN_SAMPLES = FFT // 2 + 1


class SegmentAudio:
    """The samples or features of one open segment, and its windows.

    `windows` computes log-mel, and is called in a worker thread if that takes long. Copies made by
    `encoded_by` share computed features, and take turns. Otherwise it is not thread-safe: nothing
    may be appended before `windows` has returned.
    """

    def __init__(self, geometry: Geometry, scheme: KeyScheme) -> None:
        self._geometry = geometry
        self._scheme = scheme
        self._source: PcmSource | FeatureSource = PcmSource(geometry.front_end, geometry.mel_bins)
        self._causal = CausalWindows(geometry, scheme)
        self._chunks = ChunkedMel(geometry.window_samples, geometry.lookahead, geometry.mel_bins)
        self._hashes = BlockHashes(geometry.block_frames)
        self._chunk_hashes: list[BlockHashes] = []  # of each chunk that is computed by itself
        self._silent: Window | None = None  # the silence after the last chunk
        self._computed = 0
        self._turns = Lock()

    def encoded_by(self, geometry: Geometry, scheme: KeyScheme) -> SegmentAudio:
        """Return the same audio as windows of another checkpoint.

        Features are computed once if they are the same. Nothing may be appended any more.
        """
        other = SegmentAudio(geometry, scheme)
        other._turns = self._turns
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
        return self._computed

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
                "this server's model does not accept features of a whole segment: send samples"
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
        with self._turns:
            return self._windows(samples)

    def windows_at_once(self, samples: int) -> tuple[Window, ...] | None:
        """As `windows`, for an event loop: None while another copy's windows are computed."""
        if not self._turns.acquire(blocking=False):
            return None
        try:
            return self._windows(samples)
        finally:
            self._turns.release()

    def _windows(self, samples: int) -> tuple[Window, ...]:
        self._computed = samples
        if self._geometry.front_end == "whisper_by_window":
            return self._whole_chunks(samples)
        if self._geometry.context_blocks:
            return self._causal.of(self._source.frames(samples)[0])
        frames, maximum = self._source.frames(samples)
        floor = _floor(maximum)
        settled = final_frames(samples)
        hashes = self._hashes.of(frames, settled)
        span, size = self._geometry.window_frames, self._geometry.block_frames
        windows = []
        for index, start in enumerate(range(0, len(frames), span)):
            part = frames[start : start + span]
            block_hashes = hashes[start // size : -(-(start + len(part)) // size)]
            final = start + len(part) <= settled
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
        windows = []
        for index, chunk in enumerate(self._chunks.until(samples, self._source.pcm)):
            if not self._geometry.embeddings(len(chunk.frames)):
                continue  # the beginning of a chunk, of a few milliseconds
            floor, frames = _floor(chunk.maximum), self._geometry.with_silence(chunk.frames)
            partial = chunk.samples < self._geometry.window_samples
            if index == len(self._chunk_hashes):
                self._chunk_hashes.append(BlockHashes(self._geometry.block_frames))
            final = final_frames(chunk.samples)
            hashes = self._chunk_hashes[index].of(frames, final)
            windows.append(self._chunk(index, frames, floor, hashes, final, partial=partial))
            if len(frames) < self._geometry.window_frames and self._geometry.attends_to_silence:
                windows.append(self._silence(index + 1, silence_floor(floor)))
        return tuple(windows)

    def _chunk(
        self,
        index: int,
        frames: Frames,
        floor: float,
        hashes: list[bytes],
        final: int,
        *,
        partial: bool,
    ) -> Window:
        """Return a chunk as a window; its first `final` frames are final."""
        size, blocks = self._geometry.block_frames, []
        for number, digest in enumerate(hashes):
            part = frames[number * size : (number + 1) * size]
            key = self._key([digest], part, floor)
            blocks.append(Block(key, part, len(part) == size and (number + 1) * size <= final))
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
        known = self._silent
        if known is None or (known.index, known.floor) != (index, floor):
            geometry = self._geometry
            length = geometry.window_frames
            frames, hashes = _silent_frames(length, geometry.mel_bins, geometry.block_frames)
            known = self._chunk(index, frames, floor, hashes, length, partial=False)
            self._silent = known
        return known

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


@cache
def _silent_frames(length: int, bins: int, block: int) -> tuple[Frames, list[bytes]]:
    """Return frames of digital silence, and the hashes of their blocks; do not change them."""
    frames = np.full((length, bins), SILENT, np.float32)
    frames.setflags(write=False)
    return frames, BlockHashes(block).of(frames, length)


def _floor(maximum: float) -> float:
    """Return the value to which lower ones are clamped."""
    return float(np.float32(np.float32(maximum) - np.float32(CLAMP_RANGE)))
