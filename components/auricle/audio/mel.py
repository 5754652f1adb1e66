"""Incremental log-mel that equals the one-shot extractor.

Whisper's features, as Qwen3-ASR uses them as well: 16 kHz, n_fft 400, hop 160,
80 or 128 Slaney mel bins, log10 of energies floored at 1e-10, centred frames with
reflected edges, the last frame dropped. Values stay *unclamped* here: the
clamp to (maximum − 8) depends on the whole segment and is applied where a
window is encoded.

Frame k covers samples 160k−200 … 160k+199, so it is final once 160k+200
samples have arrived; until then the end is reflected, as the extractor does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import BINS, FFT, HOP, SAMPLE_RATE, Frames
from auricle.audio.mel_tables import mel_tables

CLAMP_RANGE = 8.0
_HALF = FFT // 2
# Frames are always computed in aligned blocks of this many: matrix products of one
# shape round identically, so the result is bitwise independent of the packet sizes.
_BLOCK = 16
# Blocks computed together: few enough that their values stay in the processor's cache.
_AT_ONCE = 8


def _blocks_of_frames(slices: npt.NDArray[np.float64], bins: int) -> Frames:
    """Compute unclamped log-mel, (n, bins), of samples of shape (n, 400); n is whole blocks."""
    window, filters = mel_tables(bins)
    spectrum = np.fft.rfft(slices * window, axis=1)
    energies = spectrum.real**2 + spectrum.imag**2
    mel = energies.reshape(-1, _BLOCK, energies.shape[1]) @ filters  # block by block
    log_mel: Frames = np.log10(np.maximum(mel, 1e-10)).astype(np.float32)
    return log_mel.reshape(-1, bins)


class IncrementalLogMel:
    """Computes the unclamped log-mel of one segment; each final frame is computed once.

    Not thread-safe: one thread at a time may use it.
    """

    def __init__(self, bins: int = BINS) -> None:
        self._bins = bins
        self._samples = np.zeros(0, np.float64)
        self._dropped = 0  # samples already discarded: no later frame needs them
        self._final: list[Frames] = []  # blocks of _BLOCK final frames
        self._final_max = -np.inf

    @property
    def samples(self) -> int:
        """Number of samples received."""
        return self._dropped + len(self._samples)

    def push(self, pcm: npt.NDArray[np.float32]) -> None:
        """Append 16 kHz samples in [-1, 1], of shape (samples,)."""
        self._samples = np.concatenate([self._samples, pcm.astype(np.float64)])

    def frames(self, samples: int) -> tuple[Frames, float]:
        """Compute the features as if the segment ended after `samples`.

        Returns float32 of shape (samples // 160, bins), and its maximum. Raises ValueError if
        `samples` exceeds the samples received, decreases between calls, or is below 201,
        where the edge cannot be reflected.
        """
        if samples > self.samples:
            raise ValueError(f"{samples} samples requested, {self.samples} received")
        if samples <= _HALF:
            raise ValueError(f"log-mel needs at least {_HALF + 1} samples, got {samples}")
        self._finish_blocks(samples)
        count = samples // HOP
        done = len(self._final) * _BLOCK
        tail = [self._frames_from(start, count, samples) for start in range(done, count, _BLOCK)]
        frames = np.concatenate([*self._final, *tail])[:count]
        tail_max = max((float(block.max()) for block in tail), default=-np.inf)
        if done > count:  # cannot happen while `samples` grows
            raise ValueError("samples must not decrease")
        return frames, max(self._final_max, tail_max)

    def before_silence(self, samples: int, silence: int, further: int) -> tuple[Frames, float]:
        """Compute the features as if `silence` zeros followed `samples`, and then the end.

        Returns frames of (samples / 160, rounded up) + `further`, and the maximum of those before
        the end: behind it there are none, and what is returned for them means nothing. `samples`
        are those received.
        """
        self._finish_blocks(samples)
        count = -(-samples // HOP) + further
        # As many zeros as these frames reach into, or fewer, where the end is reflected.
        zeros = min(silence, FFT + further * HOP)
        own, self._samples = self._samples, np.concatenate([self._samples, np.zeros(zeros)])
        try:
            tail = [
                self._frames_from(start, count, samples + zeros)
                for start in range(len(self._final) * _BLOCK, count, _BLOCK)
            ]
        finally:
            self._samples = own
        frames = np.concatenate([*self._final, *tail])[:count]
        return frames, float(frames[: (samples + silence) // HOP].max())

    def _frames_from(self, start: int, count: int, samples: int) -> Frames:
        """Return a block of frames from `start` on, fewer if it ends with frame `count`."""
        slices = self._slices(start, count, samples)
        return _blocks_of_frames(slices, self._bins)[: count - start]

    def _finish_blocks(self, samples: int) -> None:
        """Compute the blocks whose last frame no later sample can change."""
        final = max(0, (samples - _HALF) // HOP + 1) // _BLOCK
        while (begin := len(self._final)) < final:
            end = min(final, begin + _AT_ONCE)
            if begin == 0:  # its first frames are reflected
                end, slices = 1, self._slices(0, _BLOCK, samples)
            else:
                slices = self._whole_slices(begin * _BLOCK, end * _BLOCK)
            frames = _blocks_of_frames(slices, self._bins)
            self._final.extend(frames.reshape(-1, _BLOCK, self._bins))
            self._final_max = max(self._final_max, float(frames.max()))
            self._drop_until(end * _BLOCK * HOP - _HALF)

    def _whole_slices(self, start: int, end: int) -> npt.NDArray[np.float64]:
        """Return the samples of frames [start, end), none of them reflected, (frames, 400)."""
        first = start * HOP - _HALF - self._dropped
        part = self._samples[first : first + (end - start - 1) * HOP + FFT]
        return np.lib.stride_tricks.sliding_window_view(part, FFT)[::HOP]

    def _slices(self, start: int, count: int, samples: int) -> npt.NDArray[np.float64]:
        """Return the samples of frames from `start` on, (_BLOCK, 400); zeros from `count` on."""
        slices = np.zeros((_BLOCK, FFT))
        frames = np.arange(start, min(start + _BLOCK, count))
        index = np.abs(frames[:, None] * HOP - _HALF + np.arange(FFT))  # reflected at the start
        index = np.where(index >= samples, 2 * (samples - 1) - index, index)  # and at the end
        slices[: len(frames)] = self._samples[index - self._dropped]
        return slices

    def _drop_until(self, sample: int) -> None:
        """Discard samples that only final frames needed (a reflected end may reach back 200)."""
        keep_from = sample - FFT
        if keep_from - self._dropped > SAMPLE_RATE:
            self._samples = self._samples[keep_from - self._dropped :]
            self._dropped = keep_from


def normalise(frames: Frames, floor: float) -> Frames:
    """Clamp to `floor` (the segment's maximum − 8) and scale as the checkpoints expect."""
    scaled: Frames = (np.maximum(frames, np.float32(floor)) + np.float32(4.0)) / np.float32(4.0)
    return scaled
