"""Decodes recordings of any common format to blocks of 16 kHz mono int16, in constant memory.

The input is untrusted: run this in a process of its own
(frontend/recordings/decoding_process.py). Work is proportional to the packets of the file and
to the samples in them, and both are limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import av
import msgspec
import numpy as np
import numpy.typing as npt
import soxr

from auricle.audio.blocks import Blocks
from auricle.audio.channels import PickedChannel
from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.containers import AudioTrack, open_track
from auricle.audio.decode import MAX_RATE, MIN_RATE, Float32
from auricle.audio.pcm import Int16, to_int16
from auricle.errors import AudioTooLong, TooCostly, UndecodableAudio

# Source audio per block: short enough to stop quickly, long enough that C code does the work.
BLOCK_SECONDS = 10
MAX_CHANNELS = 32
# A track may change its sample rate midway (broadcasts do); each change makes a new resampler.
_MAX_RATE_CHANGES = 100
# Packets before their number is compared with the audio in them: tables, headers, silence.
_FREE_PACKETS = 1_000
# What a sample of each type is multiplied by to lie in [-1, 1].
_SCALES = {
    **{"u1": np.float32(2.0**-7), "i2": np.float32(2.0**-15), "i4": np.float32(2.0**-31)},
    **{"i8": np.float32(2.0**-63), "f4": np.float32(1.0), "f8": np.float32(1.0)},
}


class RecordingLimits(msgspec.Struct, frozen=True):
    """What a recording may have; the names in messages are settings of the frontend.

    `seconds` of audio, `tracks` of any kind, `channel_rate` samples per second of all channels
    together, and `packets_per_second` of audio decoded so far.
    """

    seconds: float
    tracks: int = 64
    channel_rate: int = 1_536_000
    packets_per_second: int = 500


def read_recording(
    file: BinaryIO, name: str, limits: RecordingLimits, picked: PickedChannel | None = None
) -> Iterator[Int16]:
    """Yield the file's audio in blocks of int16, shape (samples,), at 16 kHz.

    Channels are averaged, unless one is `picked`. `name` is the client's file name, for error
    messages. Raises UndecodableAudio if the file cannot be decoded, AudioTooLong if it is longer
    than `limits.seconds` (before the first block if the header states the length), and TooCostly
    beyond another limit.
    """
    with open_track(file, name, limits.tracks) as track:
        decoding = _Decoding(track, name, limits, picked)
        if track.stated_seconds is not None:
            decoding.check_length(track.stated_seconds)
        yield from decoding.blocks()


class _Decoding:
    """The state of decoding one track."""

    def __init__(
        self, track: AudioTrack, name: str, limits: RecordingLimits, picked: PickedChannel | None
    ) -> None:
        self._track = track
        self._picked = picked
        self._name = name
        self._limits = limits
        self._packets = 0
        self._seconds = 0.0  # decoded, of source audio
        # (begin, samples): of the current sample rate. Added frame by frame, seconds would drift,
        # and a recording of exactly the longest length would be too long.
        self._since = (0.0, 0)
        self._form = (0, 0)  # sample rate and channels of the last frame
        self._rate_changes = 0
        self._next_sample: int | None = None
        self._broken = False  # the last packet could not be decoded

    def blocks(self) -> Iterator[Int16]:
        """Yield 16 kHz audio in blocks of about `BLOCK_SECONDS`."""
        steady: _SteadyRate | None = None
        for frame in self._frames():
            if steady is None or steady.rate != frame.sample_rate:
                if steady is not None:
                    yield self._checked(steady.end())
                steady = _SteadyRate(frame.sample_rate)
                self._since = (self._seconds, 0)
            for block in steady.push(self._heard(frame)):
                yield self._checked(block)
            begin, samples = self._since
            self._since = (begin, samples + frame.samples)
            self._seconds = begin + (samples + frame.samples) / frame.sample_rate
            self.check_length(self._seconds)
        if steady is None:
            raise self._damaged() if self._broken else self._without_audio()
        yield self._checked(steady.end())

    def _heard(self, frame: av.AudioFrame) -> Float32:
        return mono(frame, None if self._picked is None else self._picked.number)

    def _frames(self) -> Iterator[av.AudioFrame]:
        """Yield the track's frames, which have samples and a form that can be used.

        A recording may be cut off at either end, within a packet. Damage in its middle is an
        error, since words would be missing from the text without anybody knowing.
        """
        for packet in self._packets_of_track():
            try:
                frames = packet.decode()
            except MemoryError:
                raise
            except av.error.FFmpegError:
                self._broken = True
                continue
            for frame in frames:
                if not isinstance(frame, av.AudioFrame) or not frame.samples:
                    continue
                self._check_form(frame.sample_rate, frame.layout.nb_channels)
                if (self._broken and self._seconds) or self._lacks_some_before(frame):
                    raise self._damaged()
                self._broken = False
                yield frame

    def _lacks_some_before(self, frame: av.AudioFrame) -> bool:
        """Whether samples were passed over: FFmpeg skips damaged frames of FLAC in silence."""
        if self._track.container.format.name != "flac" or frame.pts is None:
            return False
        if self._rate_changes > 1:  # positions are in samples of the first rate
            return False
        expected, self._next_sample = self._next_sample, frame.pts + frame.samples
        return expected is not None and frame.pts > expected

    def _packets_of_track(self) -> Iterator[av.Packet]:
        try:
            for packet in self._track.container.demux(self._track.stream):
                self._packets += 1
                allowed = _FREE_PACKETS + self._limits.packets_per_second * self._seconds
                if self._packets > allowed:
                    raise TooCostly(
                        f"{self._name} has more than {self._limits.packets_per_second} packets "
                        "per second of audio (max_recording_packets_per_second)"
                    )
                yield packet
        except MemoryError:
            raise
        except (av.error.FFmpegError, OSError):  # the latter of a seek to where no file has bytes
            raise self._damaged() from None

    def _checked(self, block: Float32) -> Int16:
        if not np.isfinite(block).all():
            raise UndecodableAudio(f"{self._name} contains samples that are not finite numbers")
        return to_int16(block)

    def _damaged(self) -> UndecodableAudio:
        return UndecodableAudio(f"{self._name} is damaged {self._seconds:.1f} s after its start")

    def _without_audio(self) -> UndecodableAudio:
        return UndecodableAudio(f"{self._name} contains no audio")

    def _check_form(self, rate: int, channels: int) -> None:
        if self._form == (rate, channels):
            return
        if not MIN_RATE <= rate <= MAX_RATE:
            raise UndecodableAudio(
                f"{self._name} has a sample rate of {rate} Hz; "
                f"{MIN_RATE} to {MAX_RATE} Hz can be used"
            )
        if not 1 <= channels <= MAX_CHANNELS:
            raise UndecodableAudio(
                f"{self._name} has {channels} channels; 1 to {MAX_CHANNELS} can be used"
            )
        if rate * channels > self._limits.channel_rate:
            raise TooCostly(
                f"{self._name} has {channels} channels at {rate} Hz, {rate * channels} samples "
                f"per second; a recording may have {self._limits.channel_rate} "
                "(max_recording_channel_rate)"
            )
        if self._picked is not None:
            self._picked.found(channels, self._name)
        self._rate_changes += rate != self._form[0]
        if self._rate_changes > _MAX_RATE_CHANGES:
            raise TooCostly(
                f"{self._name} changes its sample rate more than {_MAX_RATE_CHANGES} times"
            )
        self._form = (rate, channels)

    def check_length(self, seconds: float) -> None:
        """Raise AudioTooLong if `seconds` of audio are more than a recording may have."""
        if seconds > self._limits.seconds:
            raise AudioTooLong(
                f"{self._name} is longer than the {self._limits.seconds:g} s a recording may "
                "have; send it in parts (max_recording_seconds)"
            )


class _SteadyRate:
    """Resamples a stretch of audio of one sample rate, in Hz, to 16 kHz."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._waiting = Blocks(BLOCK_SECONDS * rate)
        self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")

    def push(self, samples: Float32) -> Iterator[Float32]:
        for block in self._waiting.push(samples):
            yield self._resampler.resample_chunk(block)

    def end(self) -> Float32:
        end: Float32 = self._resampler.resample_chunk(self._waiting.rest(), last=True)
        return end


def mono(frame: av.AudioFrame, channel: int | None = None) -> Float32:
    """Return a frame's samples, float32 (samples,) in [-1, 1]: a channel, or the mean of all."""
    samples: npt.NDArray[Any] = frame.to_ndarray()
    if channel is not None:
        planar = frame.format.is_planar
        planes = samples if planar else samples.reshape(-1, frame.layout.nb_channels).T
        mean = planes[channel].astype(np.float32)
    elif frame.format.is_planar:
        mean = samples.mean(axis=0, dtype=np.float32)
    else:
        mean = samples.reshape(-1, frame.layout.nb_channels).mean(axis=1, dtype=np.float32)
    if samples.dtype == np.uint8:
        mean -= np.float32(128.0)
    scaled: Float32 = mean * _SCALES[samples.dtype.str[1:]]
    return scaled
