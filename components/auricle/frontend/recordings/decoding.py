"""What a decoding process does: one recording in, its parts out, through a pipe.

Uploads are untrusted and decoding them is heavy, so neither happens in the frontend's
process: a file that crashes a decoder, or would use all memory, costs its own request
only. The pipe's bound paces decoding to what is transcribed: memory stays constant.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import numpy as np

from auricle.audio.pcm import Int16
from auricle.audio.recording import read_recording
from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VoiceActivityModel, VoiceState
from auricle.errors import AudioTooLong, AuricleError
from auricle.frontend.endpointing import EndpointingOptions, GateEvent, OpenGate, SpeechGate
from auricle.frontend.recordings.parts import Part, PartCutter, joined

_NICE = 19  # live sessions come first
_GIB = 1 << 30


class DecodingJob(msgspec.Struct, frozen=True):
    """`name` is what the client called the file; without `endpointing` all audio is speech.

    Parts are joined up to `join` samples; 0 keeps sentences apart.
    """

    path: str
    name: str
    max_seconds: float
    max_cpu_seconds: int
    max_memory_gib: int
    limits: SegmentLimits
    endpointing: EndpointingOptions | None
    join: int = 0


class Decoded(msgspec.Struct, frozen=True, tag=True):
    """After the last part: the recording has `samples`, silence included."""

    samples: int


class DecodingFailed(msgspec.Struct, frozen=True, tag=True):
    """Instead of the rest."""

    code: str
    message: str


Output = Part | Decoded | DecodingFailed


def decode_to(connection: Connection, job: DecodingJob) -> None:
    """The whole life of a decoding process. A vanished reader ends it."""
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (job.max_cpu_seconds, job.max_cpu_seconds + 1))
    limit = job.max_memory_gib * _GIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    encode = msgspec.msgpack.Encoder().encode
    with connection:
        try:
            for output in outputs(job):
                connection.send_bytes(encode(output))
        except AuricleError as error:
            connection.send_bytes(encode(DecodingFailed(error.code, str(error))))
        except MemoryError:
            message = f"{job.name} needs more than {job.max_memory_gib} GiB to decode"
            connection.send_bytes(encode(DecodingFailed(AudioTooLong.code, message)))
        except BrokenPipeError:
            return


def outputs(job: DecodingJob) -> Iterator[Output]:
    """Parts, then `Decoded`. Raises AuricleError saying why the file cannot be used."""
    heard = _Heard()
    yield from joined(_sentences(job, heard), job.join)
    yield Decoded(heard.samples)


@dataclass
class _Heard:
    samples: int = 0


def _sentences(job: DecodingJob, heard: _Heard) -> Iterator[Part]:
    cutter = PartCutter(job.limits)
    gate = _Gate(job.endpointing)
    for pcm in read_recording(Path(job.path), job.name, job.max_seconds):
        heard.samples += len(pcm)
        yield from cutter.push(gate.push(pcm))
    yield from cutter.push(gate.finish())
    yield from cutter.finish()


class _Gate:
    """Voice activity and endpointing of one recording."""

    def __init__(self, options: EndpointingOptions | None) -> None:
        self._open = OpenGate()
        self._gate = None if options is None else SpeechGate(options)
        self._voice = VoiceState()
        self._model = None if options is None else VoiceActivityModel()

    def push(self, pcm: Int16) -> list[GateEvent]:
        if self._gate is None or self._model is None:
            return self._open.push(pcm)
        frames = self._voice.frames(pcm)
        return self._gate.push(pcm, self._model.probabilities([(self._voice, frames)])[0])

    def finish(self) -> list[GateEvent]:
        if self._gate is None or self._model is None:
            return []
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        return self._gate.finish(self._model.probabilities([(self._voice, frames)])[0])
