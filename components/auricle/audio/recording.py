"""Decodes recordings of any common format to blocks of 16 kHz mono int16, in constant memory.

The input is untrusted: run this in a separate process
(frontend/recordings/decoding_process.py). The work is proportional to the packets of the file and
their samples, and both are limited.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, cast

import av
import msgspec
import numpy as np
import soxr

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.containers import AudioTrack, open_track
from auricle.audio.decode import MAX_RATE, MIN_RATE, Float32
from auricle.audio.demuxing import Demuxing, Loss, time_of
from auricle.audio.findings import Findings
from auricle.audio.layout import FilePart, PartOfFile, layout
from auricle.audio.mixing import Mixer
from auricle.audio.pcm import Int16, to_int16
from auricle.audio.timeline import Timeline, TimeStep
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


# Source audio per block: short enough to stop quickly, long enough that C code dominates.
BLOCK_SECONDS = 10
MAX_CHANNELS = 32
# Files that may be joined in one; the bytes of more are reported.
_MOST_PARTS = 1_000
# Seconds that a header may state beyond the audio: encoders pad, and headers round.
_STATED_MORE = 0.3
# MP3 frames refer to those before them, which a recording that was cut out does not have.
_SETTLED = 0.5
# A file whose last packets cannot be read was cut off; more than that was damaged within.
_END_BYTES, _END_SHARE = 16_384, 0.05
_MOST_GAPS = 10_000  # each creates a new resampler, too
# Seconds after an error within which a gap is its result: readers and decoders keep some frames.
_SUSPECT = 2.0
# A track may change its sample rate (broadcasts do); each change creates a new resampler.
_MAX_RATE_CHANGES = 100
# Packets that are not compared with their audio: tables, headers, silence.
_FREE_PACKETS = 1_000


class RecordingLimits(msgspec.Struct, frozen=True):
    """Limits of a recording; error messages name the frontend's settings.

    `seconds` of audio, `tracks` of any kind, `channel_rate` samples per second of all channels
    together, and `packets_per_second` of audio decoded so far.
    """

    seconds: float
    tracks: int = 64
    channel_rate: int = 1_536_000
    packets_per_second: int = 500


@dataclass(frozen=True)
class Gap:
    """That many `samples` (16 kHz) of the recording have no audio, possibly none: speech before it
    and after it is never one utterance."""

    samples: int = 0


def read_recording(
    file: BinaryIO,
    name: str,
    limits: RecordingLimits,
    picked: PickedChannel | None = None,
    findings: Findings | None = None,
) -> Iterator[Int16 | Gap]:
    """Yield the file's audio in blocks of int16, shape (samples,), at 16 kHz.

    Blocks follow the times of the container: `Gap` stands for the time without audio. Files
    joined to one are one recording. Channels are averaged, unless one is `picked`; see `Mixer`.
    `name` is the client's file name, for error messages. `findings` collects the losses.

    Raises UndecodableAudio if the file cannot be decoded, or is damaged and not to be kept;
    AudioTooLong if it is longer than `limits.seconds` (before the first block if the header states
    the length), and TooCostly beyond another limit.
    """
    found = layout(file, _MOST_PARTS)
    decoding = _Decoding(name, limits, picked, Findings() if findings is None else findings)
    rest = found.rest
    for number, part in enumerate(found.parts):
        whole = part.ranges == ((0, file.seek(0, io.SEEK_END)),)
        opened = file if whole else cast(BinaryIO, PartOfFile(file, part.ranges))
        opened.seek(0)
        with ExitStack() as stack:
            try:
                track = stack.enter_context(
                    open_track(opened, name, limits.tracks, part.stated_seconds)
                )
            except UndecodableAudio:
                if not number and (part.missing or found.rest):
                    raise UndecodableAudio(
                        f"{name} cannot be opened: the file is cut off or damaged"
                    ) from None
                if not number:
                    raise
                rest += part.size
                continue
            if track.announced_seconds is not None:
                decoding.check_length(track.announced_seconds)
            if number:
                yield Gap()
            yield from decoding.blocks(track, part)
    decoding.rest(rest)


def filled(blocks: Iterable[Int16 | Gap]) -> Iterator[Int16]:
    """Yield the blocks, with zeros of at most `BLOCK_SECONDS` at a time for `Gap`."""
    for block in blocks:
        if not isinstance(block, Gap):
            yield block
            continue
        for start in range(0, block.samples, BLOCK_SECONDS * SAMPLE_RATE):
            yield np.zeros(min(block.samples - start, BLOCK_SECONDS * SAMPLE_RATE), np.int16)


class _Decoding:
    """The state of decoding a recording, over all files that are joined in it."""

    def __init__(
        self,
        name: str,
        limits: RecordingLimits,
        picked: PickedChannel | None,
        findings: Findings,
    ) -> None:
        self._picked = picked
        self._mixer = Mixer(None if picked is None else picked.number)
        self._name = name
        self._limits = limits
        self._findings = findings
        self._packets = 0
        self._decoded = 0.0  # seconds of source audio
        self._seconds = 0.0  # the place in the recording
        self._samples = 0  # 16 kHz, yielded
        self._suspect = 0.0  # the place up to which a gap is damage
        self._form = (0, 0)  # sample rate and channels of the last frame
        self._rate_changes = 0
        self._gaps = 0

    def blocks(self, track: AudioTrack, part: FilePart) -> Iterator[Int16 | Gap]:
        """Yield one file's 16 kHz audio in blocks of about `BLOCK_SECONDS`."""
        begun = self._samples / SAMPLE_RATE
        steady: _SteadyRate | None = None
        timeline = Timeline(track.origin)
        demuxing = Demuxing(track)
        for frame, loss in demuxing.frames(self.count_packet):
            self.check_form(frame.sample_rate, frame.layout.nb_channels)
            if steady is None or steady.rate != frame.sample_rate:
                if steady is not None:
                    yield self._passed(steady.end())
                steady = _SteadyRate(frame.sample_rate, self._samples)
            seconds = frame.samples / frame.sample_rate
            at = None if self._clock_stopped(track) else time_of(frame)
            step = timeline.before(at, seconds, self._seconds - begun)
            if (silent := self._report(step, loss, track)) is not None:
                yield self._passed(steady.end())
                # Rounded to the place in the recording, so that errors do not add up.
                place = round((self._seconds + silent) * SAMPLE_RATE)
                yield self._gap(place - self._samples)
                steady = _SteadyRate(frame.sample_rate, self._samples)
            elif step.kind == "drift":
                self._findings.drift(step.seconds)
                zeros = np.zeros(round(step.seconds * steady.rate), np.float32)
                for block in steady.push(zeros):
                    yield self._passed(block)
            for block in steady.push(self._mixed(frame, seconds)):
                yield self._passed(block)
            self._decoded += seconds
            self._seconds = steady.seconds
            self.check_length(self._seconds)
        if steady is not None:
            yield self._passed(steady.end())
        elif begun == 0:
            raise self._damaged() if demuxing.lost else self._without_audio()
        if demuxing.lost and part.size - demuxing.end > max(_END_BYTES, part.size * _END_SHARE):
            self._damage(0.0)
        self._end(part, track, begun, demuxing.lost)

    def _clock_stopped(self, track: AudioTrack) -> bool:
        """Whether times are useless: FLAC counts samples of its first rate."""
        return track.container.format.name == "flac" and self._rate_changes > 1

    def _mixed(self, frame: av.AudioFrame, seconds: float) -> Float32:
        samples = self._mixer.mix(frame)
        if self._mixer.cancelled:
            self._findings.louder_channel(self._seconds, seconds)
        return samples

    def _report(self, step: TimeStep, loss: Loss, track: AudioTrack) -> float | None:
        """Report the step before a frame; return the seconds of silence that end an utterance.

        None: nothing ends it. Raises UndecodableAudio for damage that is not to be kept.
        """
        if step.kind != "none" or loss is Loss.PACKET:
            self._count_gap()
        if step.kind == "back":
            self._findings.back(self._seconds, step.seconds)
        gap = step.kind == "gap"
        silent = step.seconds if gap or step.kind == "drift" else 0.0
        self._check_gap(silent)
        if loss is not Loss.NONE:
            self._suspect = self._seconds + _SUSPECT
        lost = gap and (self._seconds < self._suspect or not track.has_pauses)
        if self._seconds and (lost or loss is Loss.PACKET):
            self._damage(silent)
            return silent
        if loss is Loss.FAULT and self._seconds > _SETTLED:
            self._findings.fault(self._seconds)
        if not gap:
            return None
        self._findings.gap(self._seconds, silent)
        return silent

    def _damage(self, seconds: float) -> None:
        """Report damage here, of that length as far as is known. Raises UndecodableAudio."""
        if not self._findings.keep_damaged:
            raise self._damaged()
        self._findings.damage(self._seconds, seconds)

    def _end(self, part: FilePart, track: AudioTrack, begun: float, lost: bool) -> None:
        """Compare the decoded part with what its headers state."""
        found, length = self._findings, self._seconds - begun
        if track.choice:
            found.other(track.choice)
        stated = track.stated_seconds
        if part.missing:
            seconds = length * part.missing / part.size
            found.missing(f"the file is cut off: about {seconds:.1f} s or more are missing")
        elif stated is not None and stated - length > _STATED_MORE:
            found.missing(
                f"{stated - length:.1f} s are missing: the header states {stated:.1f} s, "
                f"the recording has {length:.1f} s"
            )
        elif lost or part.cut or self._ends_in_error(track):
            found.missing(f"the file is cut off or damaged at its end, after {self._seconds:.1f} s")

    def _ends_in_error(self, track: AudioTrack) -> bool:
        """Whether packets of the end are marked, by a format that marks only damaged ones."""
        return track.container.format.name == "mpeg" and self._seconds < self._suspect

    def rest(self, size: int) -> None:
        """Report that `size` bytes follow the recording."""
        if size:
            self._findings.missing(
                f"{size} bytes after the end of the recording at {self._seconds:.1f} s were not "
                "decoded"
            )

    def _check_gap(self, seconds: float) -> None:
        if seconds and self._seconds + seconds > self._limits.seconds:
            raise AudioTooLong(
                f"{self._name} has no audio for {seconds:.1f} s at {self._seconds:.1f} s, "
                f"and is longer than the {self._limits.seconds:g} s a recording may have "
                "(max_recording_seconds)"
            )

    def _count_gap(self) -> None:
        self._gaps += 1
        if self._gaps > _MOST_GAPS:
            raise TooCostly(f"{self._name} has more than {_MOST_GAPS} gaps in its times")

    def count_packet(self) -> None:
        """Raise TooCostly if there are more packets than their audio may have."""
        self._packets += 1
        if self._packets > _FREE_PACKETS + self._limits.packets_per_second * self._decoded:
            raise TooCostly(
                f"{self._name} has more than {self._limits.packets_per_second} packets "
                "per second of audio (max_recording_packets_per_second)"
            )

    def _passed(self, block: Float32) -> Int16:
        if not np.isfinite(block).all():
            raise UndecodableAudio(f"{self._name} contains samples that are not finite numbers")
        self._samples += len(block)
        return to_int16(block)

    def _gap(self, samples: int) -> Gap:
        self._samples += max(0, samples)
        return Gap(max(0, samples))

    def _damaged(self) -> UndecodableAudio:
        return UndecodableAudio(
            f"{self._name} is damaged {self._seconds:.1f} s after its start; with on_damage keep "
            "the rest is transcribed"
        )

    def _without_audio(self) -> UndecodableAudio:
        return UndecodableAudio(f"{self._name} contains no audio")

    def check_form(self, rate: int, channels: int) -> None:
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

    def __init__(self, rate: int, start: int) -> None:
        """The stretch begins at sample `start` (16 kHz) of the recording."""
        self.rate = rate
        self._start = start / SAMPLE_RATE
        # Seconds added frame by frame would drift, and a recording of exactly the maximum length
        # would be too long.
        self._taken = 0
        self._waiting = Blocks(BLOCK_SECONDS * rate)
        self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")

    @property
    def seconds(self) -> float:
        """The place in the recording where the next sample belongs."""
        return self._start + self._taken / self.rate

    def push(self, samples: Float32) -> Iterator[Float32]:
        self._taken += len(samples)
        for block in self._waiting.push(samples):
            yield self._resampler.resample_chunk(block)

    def end(self) -> Float32:
        end: Float32 = self._resampler.resample_chunk(self._waiting.rest(), last=True)
        return end
