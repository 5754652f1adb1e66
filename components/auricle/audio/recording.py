"""Recorded files of any common format as blocks of 16 kHz mono int16, in constant memory.

Opens untrusted input: run it in a process of its own (frontend/recordings/decoding.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import soundfile
import soxr

from auricle.audio.decode import MAX_RATE, MIN_RATE, Float32
from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_int16
from auricle.errors import AudioTooLong, UndecodableAudio

# Of source audio per block: small enough to stop quickly, large enough for C to do the work.
BLOCK_SECONDS = 10
MAX_CHANNELS = 32
FORMATS = "WAV, FLAC, MP3, Ogg, MP4/M4A, WebM, AAC or another format FFmpeg reads"


def read_recording(path: Path, name: str, max_seconds: float) -> Iterator[Int16]:
    """Blocks of the file's audio. `name` is what the client called it.

    Raises UndecodableAudio if it is not audio, and AudioTooLong beyond `max_seconds`
    (at once where the header says so).
    """
    file = _open_sound_file(path)
    if file is not None:
        with file:
            rate = file.samplerate
            _check_form(name, rate, file.channels)
            _check_length(name, file.frames / rate, max_seconds)
            yield from _resampled(_sound_file_blocks(file, name), rate, name, max_seconds)
        return
    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise UndecodableAudio(f"{name} has no audio track")
            rate = container.streams.audio[0].rate or 0
            _check_form(name, rate, container.streams.audio[0].channels)
            if container.duration:
                _check_length(name, container.duration / av.time_base, max_seconds)
            yield from _resampled(_container_blocks(container, rate), rate, name, max_seconds)
    except av.error.FFmpegError as error:
        raise UndecodableAudio(f"{name} is not readable as {FORMATS}: {error.strerror}") from None


def _open_sound_file(path: Path) -> soundfile.SoundFile | None:
    """None if libsndfile does not know the format: FFmpeg may."""
    try:
        return soundfile.SoundFile(path)
    except soundfile.LibsndfileError:
        return None


def _sound_file_blocks(file: soundfile.SoundFile, name: str) -> Iterator[Float32]:
    """Mono samples at the file's rate."""
    while True:
        try:
            block = file.read(BLOCK_SECONDS * file.samplerate, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise UndecodableAudio(f"{name} is damaged: {error}") from None
        if not len(block):
            return
        yield block.mean(axis=1, dtype=np.float32)


def _container_blocks(container: av.container.InputContainer, rate: int) -> Iterator[Float32]:
    """Mono samples at `rate`; a track may change its form on the way."""
    mono = av.AudioResampler(format="flt", layout="mono", rate=rate)
    waiting: list[Float32] = []
    frames = (f for frame in container.decode(audio=0) for f in mono.resample(frame))
    for frame in frames:
        waiting.append(frame.to_ndarray().reshape(-1))
        if sum(map(len, waiting)) >= BLOCK_SECONDS * rate:
            yield np.concatenate(waiting)
            waiting = []
    waiting += [frame.to_ndarray().reshape(-1) for frame in mono.resample(None)]
    if waiting:
        yield np.concatenate(waiting)


def _resampled(
    blocks: Iterator[Float32], rate: int, name: str, max_seconds: float
) -> Iterator[Int16]:
    stream = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    samples = 0
    for block in blocks:
        if not np.isfinite(block).all():
            raise UndecodableAudio(f"{name} contains samples that are not finite numbers")
        samples += len(block)
        _check_length(name, samples / rate, max_seconds)
        yield to_int16(stream.resample_chunk(block))
    if not samples:
        raise UndecodableAudio(f"{name} contains no audio")
    yield to_int16(stream.resample_chunk(np.zeros(0, np.float32), last=True))


def _check_form(name: str, rate: int, channels: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        raise UndecodableAudio(
            f"{name} has a sample rate of {rate} Hz; {MIN_RATE} to {MAX_RATE} Hz can be used"
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise UndecodableAudio(f"{name} has {channels} channels; 1 to {MAX_CHANNELS} can be used")


def _check_length(name: str, seconds: float, max_seconds: float) -> None:
    if seconds > max_seconds:
        raise AudioTooLong(
            f"{name} is longer than the {max_seconds:g} s a recording may have; send it in parts"
        )
