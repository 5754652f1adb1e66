"""Reads what a decoding process writes. It is untrusted: its decoder may have been taken over."""

from __future__ import annotations

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import AudioTooLong, TooCostly, UndecodableAudio, from_code
from auricle.frontend.recordings.decoding_process import (
    Confined,
    DecodingFailed,
    DecodingJob,
    EndOfRecording,
    Message,
    Output,
)
from auricle.frontend.recordings.parts import Decoded, Part

_DECODER = msgspec.msgpack.Decoder(Message)
_SAMPLE_BYTES = 2
_OVERHEAD_BYTES = 4096  # of a message beside its audio
_MAX_MESSAGE_CHARACTERS = 1_000
_REPORTED = {kind.code for kind in (AudioTooLong, TooCostly, UndecodableAudio)}


class BadOutput(Exception):
    """A message that a decoding process would not write; says what is wrong with it."""


class DecodingOutput:
    """The messages of one process: each is checked against the job and those before it."""

    def __init__(self, job: DecodingJob) -> None:
        self._most_samples = int((job.recording.seconds + 1) * SAMPLE_RATE)
        self._most_bytes = job.segments.maximum * _SAMPLE_BYTES
        self._most_channels = 1 if job.channel is None else job.most_channels
        self._decoded = 0
        self._end = 0  # of the last part

    @property
    def max_message_bytes(self) -> int:
        """The size of the largest message."""
        return self._most_bytes + _OVERHEAD_BYTES

    def read(self, data: bytes) -> Confined | DecodingFailed | Output:
        """Return the message. Raises BadOutput."""
        try:
            message: Message = _DECODER.decode(data)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadOutput(str(error)) from None
        if not self._possible(message):
            raise BadOutput(f"an impossible {type(message).__name__}")
        return message

    def _possible(self, message: Message) -> bool:
        match message:
            case Part(start=start, end=end, pcm=pcm):
                before, self._end = self._end, end
                whole = 0 < len(pcm) <= self._most_bytes and not len(pcm) % _SAMPLE_BYTES
                return whole and before <= start < end <= self._most_samples
            case Decoded(samples=samples):
                self._decoded += samples
                return samples >= 0 and self._decoded <= self._most_samples
            case EndOfRecording(samples=samples, channels=channels):
                return samples == self._decoded and 1 <= channels <= self._most_channels
            case DecodingFailed(code=code):
                return code in _REPORTED
            case Confined():
                return True


def failure(message: DecodingFailed) -> Exception:
    """Return the error that the process reported."""
    return from_code(message.code, message.message[:_MAX_MESSAGE_CHARACTERS])
