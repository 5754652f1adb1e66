"""The decoding process: reads one recording and writes its parts to a pipe.

Uploads are untrusted, and decoding uses much CPU, so it does not run in the frontend's
process: a file that crashes a decoder or exhausts memory fails only its own request, and one
that takes over a decoder has access to nothing (sandbox.py). The pipe is bounded, so decoding
waits for transcription and memory stays constant.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from multiprocessing.connection import Connection
from types import ModuleType
from typing import BinaryIO

import av
import msgspec
import numpy as np
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.findings import Findings
from auricle.audio.pcm import Int16
from auricle.audio.recording import Gap, PickedChannel, RecordingLimits, read_recording
from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VAD_FRAME, Floats, VoiceActivitySequence, VoiceState
from auricle.core.errors import AuricleError, TooCostly, UndecodableAudio
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.recordings.parts import DecodedSamples, PartCutter, RecordingPart
from auricle.frontend.recordings.sandbox import ProcessLimits, confine

_CAUSE_CHARACTERS = 200


def _import_all_of(package: ModuleType) -> None:
    """Import every module of the package: a confined process cannot import it later."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(("__main__", ".datasets")):  # a program, and downloads
            importlib.import_module(module.name)


_import_all_of(av)


class DecodingJob(msgspec.Struct, frozen=True):
    """One recording to decode, with its limits.

    `name` is the client's file name. Without `endpointing` all audio counts as speech. Without
    `channel` all channels are mixed; with it the recording may have `most_channels`. With
    `keep_damaged` damage is a warning.
    """

    name: str
    recording: RecordingLimits
    process: ProcessLimits
    segments: SegmentLimits
    endpointing: EndpointingOptions | None
    channel: int | None = None
    most_channels: int = 1
    keep_damaged: bool = False


class Confined(msgspec.Struct, frozen=True, tag=True):
    """The first message: the process has no access to anything else now.

    `without_seccomp` is the reason why it has no seccomp filter; empty if it has one.
    """

    without_seccomp: str


class EndOfRecording(msgspec.Struct, frozen=True, tag=True):
    """Follows the last part: the recording has `samples` (16 kHz), with the time without audio.

    `channels` is their number, if the job has a `channel`. `warnings` name missing audio: see
    `Findings`.
    """

    samples: int
    channels: int = 1
    warnings: tuple[str, ...] = ()


class DecodingFailed(msgspec.Struct, frozen=True, tag=True):
    """Ends the output of a recording that cannot be decoded; `code` is an `AuricleError.code`.

    `message` is for the client, `cause` for the log.
    """

    code: str
    message: str
    cause: str = ""


Output = RecordingPart | DecodedSamples | EndOfRecording
Message = Confined | Output | DecodingFailed
# Called before the process has a job and is confined: may import and open files. The returned
# function is called with the job and its upload once the process is confined.
Prepare = Callable[[], Callable[[DecodingJob, BinaryIO], Iterator[Output]]]


def work_in_process(connection: Connection, jobs: Connection, prepare: Prepare) -> None:
    """Run a decoding process: write all messages to `connection`, within the job's limits.

    `jobs` delivers the job and then the upload's descriptor. Returns early if the frontend has
    closed one of the two.
    """
    work = prepare()
    try:
        with jobs:
            job: DecodingJob = jobs.recv()
            upload = reduction.recv_handle(jobs)
    except (EOFError, OSError):
        return
    with connection, os.fdopen(upload, "rb") as file:
        encode = msgspec.msgpack.Encoder().encode

        def send(message: Message) -> None:
            connection.send_bytes(encode(message))

        reason = confine((connection.fileno(), file.fileno()), job.process)
        try:
            send(Confined(reason))
            for output in work(job, file):
                send(output)
        except BrokenPipeError:
            return
        except Exception as error:
            send(_failure(error, job))


def _failure(error: Exception, job: DecodingJob) -> DecodingFailed:
    if isinstance(error, AuricleError):
        return DecodingFailed(error.code, str(error))
    if isinstance(error, MemoryError):
        mib = job.process.memory_bytes >> 20
        message = f"{job.name} needs more than {mib} MiB to decode (max_decoding_memory_gib)"
        return DecodingFailed(TooCostly.code, message)
    return DecodingFailed(
        UndecodableAudio.code,
        f"{job.name} cannot be decoded; convert it to WAV or FLAC and try again",
        cause=repr(error)[:_CAUSE_CHARACTERS],
    )


class RecordingDecoder:
    """Decodes recordings and cuts them into parts. The constructor loads the VAD model."""

    def __init__(self) -> None:
        self._model = VoiceActivitySequence()

    def __call__(self, job: DecodingJob, file: BinaryIO) -> Iterator[Output]:
        """Yield parts, `DecodedSamples` before them, and `EndOfRecording` last.

        Raises AuricleError if the file cannot be used.
        """
        gate, cutter = _Gate(job.endpointing, self._model), PartCutter(job.segments)
        channel = job.channel
        picked = None if channel is None else PickedChannel(channel, job.most_channels)
        findings = Findings(keep_damaged=job.keep_damaged)
        for block in read_recording(file, job.name, job.recording, picked, findings):
            if isinstance(block, Gap):
                yield from map(gate.heard, cutter.push(gate.skip(block.samples)))
                continue
            yield DecodedSamples(len(block))
            yield from map(gate.heard, cutter.push(gate.push(block)))
        yield from map(gate.heard, cutter.push(gate.skip(0)))
        yield from map(gate.heard, cutter.finish())
        channels = 1 if picked is None else picked.count
        yield EndOfRecording(gate.samples, channels, findings.warnings(gate.samples / SAMPLE_RATE))


class _Gate:
    """Voice activity detection and endpointing of one recording.

    `samples` is the number of those passed or skipped so far.
    """

    def __init__(self, options: EndpointingOptions | None, model: VoiceActivitySequence) -> None:
        self.samples = 0
        self._options = options
        self._model = model
        self._speech = array("f")  # probabilities of the frames since the last part's end
        self._frames = array("q")  # the samples at which these frames begin
        self._begin()

    def _begin(self) -> None:
        options = self._options
        self._gate = None if options is None else Endpointer(options, self.samples)
        self._voice = VoiceState()
        self._next_frame = self.samples

    def push(self, pcm: Int16) -> list[AudioEvent]:
        start = self.samples
        self.samples += len(pcm)
        if self._gate is None:
            return [AudioChunk(start, pcm)]
        return self._gate.push(pcm, self._probabilities(self._voice.frames(pcm)))

    def skip(self, samples: int) -> list[AudioEvent]:
        """End speech here, and skip `samples` without audio, which cost nothing."""
        events: list[AudioEvent] = []
        if self._gate is None:
            events.append(AudioChunk(self.samples, np.zeros(0, np.int16), "endpoint"))
        else:
            last = self._voice.frames(np.zeros(0, np.int16), last=True)
            events += self._gate.finish(self._probabilities(last))
        self.samples += samples
        self._begin()
        return events

    def heard(self, part: RecordingPart) -> RecordingPart:
        """Return the part with its speech probability. Parts come in order.

        Where all audio counts as speech it is 1.
        """
        if self._options is None:
            return part
        first = bisect_right(self._frames, part.start - VAD_FRAME)
        stop = bisect_left(self._frames, part.end)
        likely = max(self._speech[first:stop])
        # The next part may begin within the last frame.
        over = bisect_right(self._frames, part.end - VAD_FRAME)
        del self._speech[:over], self._frames[:over]
        return replace(part, speech=min(1.0, max(0.0, likely)))

    def _probabilities(self, frames: Floats) -> list[float]:
        found: list[float] = self._model.probabilities(self._voice, frames).tolist()
        end = self._next_frame + len(found) * VAD_FRAME
        self._frames.extend(range(self._next_frame, end, VAD_FRAME))
        self._speech.extend(found)
        self._next_frame = end
        return found
