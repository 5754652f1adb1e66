"""Decodes recordings of any common format to blocks of 16 kHz mono int16, in constant memory.

The input is untrusted: run this in a separate process
(frontend/recordings/decoding_process.py). The work is proportional to the packets of the file and
their samples, and both are limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import av
import msgspec
import numpy as np
import numpy.typing as npt
import soxr
from av.container import InputContainer
from av.stream import Discard

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import MAX_RATE, MIN_RATE, Float32
from auricle.audio.pcm import Int16, to_int16
from auricle.core.errors import AudioTooLong, TooCostly, UndecodableAudio


class Blocks:
    """Collects float32 samples from pieces of any size into blocks of `size` samples.

    Each sample is copied once.
    """

    def __init__(self, size: int) -> None:
        self._block = np.empty(size, np.float32)
        self._filled = 0

    def push(self, samples: Float32) -> Iterator[Float32]:
        """Append samples, shape (n,), and yield the full blocks, shape (size,)."""
        while len(samples):
            taken = samples[: len(self._block) - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            samples = samples[len(taken) :]
            if self._filled == len(self._block):
                yield self.rest()

    def rest(self) -> Float32:
        """Remove and return the samples of the incomplete block."""
        rest = self._block[: self._filled].copy()
        self._filled = 0
        return rest


@dataclass
class PickedChannel:
    """Selects one of at most `most` channels; `count` is the actual number once known."""

    number: int
    most: int
    count: int = 0

    def found(self, channels: int, name: str) -> None:
        """Record the number of `channels` in the following frames of the file `name`.

        Raises TooCostly above `most`, and UndecodableAudio if the number changes: the channels
        could not be matched.
        """
        if channels > self.most:
            raise TooCostly(
                f"{name} has {channels} channels; at most {self.most} are transcribed separately "
                "(max_channels)"
            )
        if self.count not in (0, channels):
            raise UndecodableAudio(
                f"{name} has {self.count} channels and then {channels}; they cannot be matched"
            )
        self.count = channels


# FFmpeg opens an untrusted recording, with these containers and codecs only. It gets the open
# file, never a path: many formats (concat, HLS, SDP, ...) refer to other files, which it would
# read. Other tracks (video, subtitles, cover art, attachments) are neither probed nor passed on.

FORMATS = "WAV, FLAC, MP3, Ogg, MP4/M4A, WebM/MKV, AAC, AIFF, AMR, WMA, AVI, MPEG, AU or CAF"
# Demuxers of formats that contain their audio, rather than refer to other files.
_CONTAINERS = "aac,aiff,amr,asf,au,avi,caf,flac,matroska,mov,mp3,mpeg,mpegts,ogg,w64,wav"
# Decoders of common speech and music formats, by FFmpeg's names.
CODECS = frozenset(
    (
        *("aac", "aac_latm", "ac3", "eac3", "alac", "amrnb", "amrwb", "flac", "gsm", "gsm_ms"),
        *("mp1", "mp1float", "mp2", "mp2float", "mp3", "mp3float", "opus", "libopus", "speex"),
        *("vorbis", "wmav1", "wmav2", "wmalossless", "wmapro", "wmavoice"),
        *("adpcm_ima_qt", "adpcm_ima_wav", "adpcm_ms", "pcm_alaw", "pcm_mulaw", "pcm_f32be"),
        *("pcm_f32le", "pcm_f64be", "pcm_f64le", "pcm_s8", "pcm_s16be", "pcm_s16le", "pcm_s24be"),
        *("pcm_s24le", "pcm_s32be", "pcm_s32le", "pcm_u8"),
    )
)
# Samples per channel in one frame: more than any encoder writes, and still allocatable.
_MAX_FRAME_SAMPLES = 1 << 20
# Formats whose length FFmpeg estimates from the bit rate of their beginning.
_ESTIMATED = frozenset({"aac", "mp3", "mpeg", "mpegts"})


@dataclass(frozen=True)
class AudioTrack:
    """The first audio track of an open container.

    `stated_seconds` is the length in the header; None if it has none.
    """

    container: InputContainer
    stream: av.AudioStream
    stated_seconds: float | None


@contextmanager
def open_track(file: BinaryIO, name: str, max_streams: int) -> Iterator[AudioTrack]:
    """Open a recording; `file` must stay open while the block runs.

    `name` is the client's file name, for error messages. Raises UndecodableAudio for an unsupported
    container or codec or a file without audio, TooCostly above `max_streams` tracks, and
    MemoryError.
    """
    try:
        container = av.open(
            file,
            container_options={
                "format_whitelist": _CONTAINERS,
                "codec_whitelist": ",".join(sorted(CODECS)),
                "protocol_whitelist": "",
            },
            io_open=_refuse_other_file,
            metadata_errors="replace",
        )
    except MemoryError:
        raise
    except (av.error.FFmpegError, OSError):  # OSError: another file, or a seek before 0
        raise UndecodableAudio(f"{name} is not readable as {FORMATS}") from None
    with container:
        if len(container.streams) > max_streams:
            raise TooCostly(
                f"{name} has {len(container.streams)} tracks; "
                f"a recording may have {max_streams} (max_recording_tracks)"
            )
        yield _track(container, name)


def _track(container: InputContainer, name: str) -> AudioTrack:
    if not container.streams.audio:
        raise UndecodableAudio(f"{name} has no audio track")
    stream = container.streams.audio[0]
    context = stream.codec_context
    if context is None or context.codec.name not in CODECS:
        raise UndecodableAudio(f"{name} has audio of an unsupported codec")
    context.options = {
        "codec_whitelist": context.codec.name,
        "max_samples": str(_MAX_FRAME_SAMPLES),
    }
    context.thread_count = 1
    for other in container.streams:
        if other is not stream:
            other.discard = Discard.all
    stated = None
    if container.duration and container.format.name not in _ESTIMATED:
        stated = container.duration / av.time_base
    return AudioTrack(container, stream, stated)


def _refuse_other_file(_url: str, _flags: int, _options: dict[str, str]) -> NoReturn:
    """FFmpeg's `io_open` callback: reject other files that a recording refers to."""
    raise PermissionError("a recording must be one file")


# Source audio per block: short enough to stop quickly, long enough that C code dominates.
BLOCK_SECONDS = 10
MAX_CHANNELS = 32
# A track may change its sample rate (broadcasts do); each change creates a new resampler.
_MAX_RATE_CHANGES = 100
# Packets that are not compared with their audio: tables, headers, silence.
_FREE_PACKETS = 1_000
# Factors that scale samples of each type to [-1, 1].
_SCALES = {
    **{"u1": np.float32(2.0**-7), "i2": np.float32(2.0**-15), "i4": np.float32(2.0**-31)},
    **{"i8": np.float32(2.0**-63), "f4": np.float32(1.0), "f8": np.float32(1.0)},
}


class RecordingLimits(msgspec.Struct, frozen=True):
    """Limits of a recording; error messages name the frontend's settings.

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
        # (begin, samples) at the current sample rate. Seconds added frame by frame would drift, and
        # a recording of exactly the maximum length would be too long.
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
            for block in steady.push(self._samples(frame)):
                yield self._checked(block)
            begin, samples = self._since
            self._since = (begin, samples + frame.samples)
            self._seconds = begin + (samples + frame.samples) / frame.sample_rate
            self.check_length(self._seconds)
        if steady is None:
            raise self._damaged() if self._broken else self._without_audio()
        yield self._checked(steady.end())

    def _samples(self, frame: av.AudioFrame) -> Float32:
        return mono(frame, None if self._picked is None else self._picked.number)

    def _frames(self) -> Iterator[av.AudioFrame]:
        """Yield the track's frames with samples, after checking their form.

        A recording may be truncated at either end, within a packet. Damage in its middle is an
        error, since words would be missing from the text without notice.
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
                if (self._broken and self._seconds) or self._has_gap_before(frame):
                    raise self._damaged()
                self._broken = False
                yield frame

    def _has_gap_before(self, frame: av.AudioFrame) -> bool:
        """Whether samples were skipped: FFmpeg silently skips damaged frames of FLAC."""
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
        except (av.error.FFmpegError, OSError):  # OSError: a seek beyond the file
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
    """Return a frame's samples, float32 (samples,) in [-1, 1]: one channel, or their mean."""
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
