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

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import BINS, FFT, HOP, SAMPLE_RATE, Frames

# Window and filters equal transformers' own. Importing transformers would cost a process without a
# model seconds at startup, and PyTorch's memory.
Table = npt.NDArray[np.float64]

# Slaney's scale is linear up to 1 kHz, which is 15 mels, and logarithmic above.
_LINEAR_HERTZ, _LINEAR_MELS = 1000.0, 15.0


@lru_cache(maxsize=4)
def mel_tables(bins: int) -> tuple[Table, Table]:
    """Return the periodic Hann window, (400,), and Slaney's mel filters, (201, bins)."""
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(FFT) / FFT)
    half = SAMPLE_RATE / 2
    top = _LINEAR_MELS + np.log(half / _LINEAR_HERTZ) * (27.0 / np.log(6.4))
    corners = _hertz(np.linspace(0.0, top, bins + 2))
    # All triangles have the same area.
    area = 2.0 / (corners[2:] - corners[:-2])
    return window, _triangles(corners, FFT) * area


@lru_cache(maxsize=4)
def htk_filters(bins: int, fft: int) -> Table:
    """Return HTK's mel filters for an FFT of `fft` points, (fft // 2 + 1, bins)."""
    top = 2595.0 * np.log10(1.0 + SAMPLE_RATE / 2 / 700.0)
    corners = 700.0 * (10.0 ** (np.linspace(0.0, top, bins + 2) / 2595.0) - 1.0)
    return _triangles(corners, fft)


def _triangles(corners: Table, fft: int) -> Table:
    """Return triangles of height 1 between neighbours of `corners`, in Hz."""
    slopes = corners - np.linspace(0.0, SAMPLE_RATE / 2, fft // 2 + 1)[:, None]
    widths = np.diff(corners)
    rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    triangles: Table = np.maximum(0.0, np.minimum(rising, falling))
    return triangles


def _hertz(mels: Table) -> Table:
    hertz = 200.0 * mels / 3.0
    above = mels >= _LINEAR_MELS
    steps = mels[above] - _LINEAR_MELS
    hertz[above] = _LINEAR_HERTZ * np.exp(np.log(6.4) / 27.0 * steps)
    return hertz


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

        Returns frames of (samples / 160, rounded up) + `further`, and the maximum of the frames
        before the end; frames behind the end are meaningless. `samples` is the number received.
        """
        self._finish_blocks(samples)
        count = -(-samples // HOP) + further
        # The zeros that these frames cover, or fewer, where the end is reflected.
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
        """Compute the blocks that no later sample can change."""
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
        """Discard samples that only final frames use (a reflected end may reach back 200)."""
        keep_from = sample - FFT
        if keep_from - self._dropped > SAMPLE_RATE:
            self._samples = self._samples[keep_from - self._dropped :]
            self._dropped = keep_from


def normalise(frames: Frames, floor: float) -> Frames:
    """Clamp to `floor` (the segment's maximum − 8) and scale as the checkpoints expect."""
    scaled: Frames = (np.maximum(frames, np.float32(floor)) + np.float32(4.0)) / np.float32(4.0)
    return scaled


# Features of Gemma 4 (Universal Speech Model): 16 kHz, frames of 320 samples every 160, 128 HTK mel
# bins of the magnitudes of a 512-point FFT, natural logarithm after adding 0.001. Frame k covers
# samples 160k−160 … 160k+159, with silence before the first, and is final once sample 160k+160 has
# arrived. Nothing depends on the segment's maximum, so nothing is clamped.
_LENGTH = 2 * HOP  # samples of a frame
_FFT = 512
_FLOOR = 1e-3
# A periodic Hann window, in the precision of the published one.
_WINDOW = (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(_LENGTH) / _LENGTH)).astype(np.float32)


class SemicausalLogMel:
    """Computes the log-mel of one segment; each block of 16 whole frames is computed once.

    Not thread-safe: one thread at a time may use it.
    """

    def __init__(self) -> None:
        self._padded = np.zeros(HOP, np.float64)  # silence, and the samples not yet dropped
        self._dropped = 0  # of the padded ones
        self._final: list[Frames] = []  # blocks of _BLOCK frames

    @property
    def samples(self) -> int:
        """Number of samples received."""
        return self._dropped + len(self._padded) - HOP

    def push(self, pcm: npt.NDArray[np.float32]) -> None:
        """Append 16 kHz samples in [-1, 1], of shape (samples,)."""
        self._padded = np.concatenate([self._padded, pcm.astype(np.float64)])

    def frames(self, samples: int) -> tuple[Frames, float]:
        """Return the final frames after `samples`, and -inf, as nothing is clamped.

        They are float32 of shape ((samples - 1) // 160, 128). Raises ValueError if `samples`
        exceeds the samples received or is too small for a frame.
        """
        if samples > self.samples:
            raise ValueError(f"{samples} samples requested, {self.samples} received")
        count = (samples - 1) // HOP
        if count < 1:
            raise ValueError(f"log-mel needs at least {HOP + 1} samples, got {samples}")
        while len(self._final) < count // _BLOCK:
            self._final.append(self._computed(len(self._final) * _BLOCK, _BLOCK))
        whole, rest = divmod(count, _BLOCK)
        tail = [self._computed(whole * _BLOCK, rest)] if rest else []
        self._drop_until(len(self._final) * _BLOCK * HOP)
        return np.concatenate([*self._final[:whole], *tail]), -np.inf

    def _computed(self, start: int, count: int) -> Frames:
        """Compute `count` frames from `start` on, at most a block of them."""
        slices = np.zeros((_BLOCK, _LENGTH))
        first = start * HOP - self._dropped
        part = self._padded[first : first + (count - 1) * HOP + _LENGTH]
        slices[:count] = np.lib.stride_tricks.sliding_window_view(part, _LENGTH)[::HOP]
        magnitudes = np.abs(np.fft.rfft(slices * _WINDOW, n=_FFT, axis=1))
        log_mel: Frames = np.log(magnitudes @ htk_filters(BINS, _FFT) + _FLOOR).astype(np.float32)
        return log_mel[:count]

    def _drop_until(self, padded: int) -> None:
        """Discard samples that only whole blocks use, a second or more at a time."""
        if padded - self._dropped > SAMPLE_RATE:
            self._padded = self._padded[padded - self._dropped :]
            self._dropped = padded
