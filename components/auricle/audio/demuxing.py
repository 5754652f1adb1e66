"""Reads the frames of an open track, and reports where audio was lost before them.

FFmpeg mends a damaged container silently: it looks for the next packet, and only logs an error. Its
log is therefore read for each packet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto

import av

from auricle.audio.containers import AudioTrack
from auricle.audio.raw_frames import RAW, is_tag, is_whole


class Loss(Enum):
    """What happened before a frame.

    `PACKET`: a packet could not be decoded. `MENDED`: the container was damaged there, if a gap
    follows. `FAULT`: the decoder has reported an error without losing the frame.
    """

    NONE = auto()
    FAULT = auto()
    MENDED = auto()
    PACKET = auto()


class Demuxing:
    """Reads one track, once.

    `lost`: since the last frame, something could not be read. `end`: the place in the file after
    the last packet that could be decoded.
    """

    def __init__(self, track: AudioTrack) -> None:
        self._track = track
        self._format = track.container.format.name
        self._codec = track.stream.codec_context.name
        self._loss = Loss.NONE
        self.lost = False
        self.end = 0

    def frames(self, count: Callable[[], None]) -> Iterator[tuple[av.AudioFrame, Loss]]:
        """Yield the frames with samples; call `count` for each packet.

        A recording may be cut off at either end, within a packet.
        """
        for packet in self._packets():
            count()
            if packet.is_corrupt:
                self._found(Loss.MENDED)
            for frame in self._decoded(packet):
                if not isinstance(frame, av.AudioFrame) or not frame.samples:
                    continue
                if frame.is_corrupt:
                    self._found(Loss.FAULT)
                if not packet.size:  # the end: kept by the decoder
                    yield frame, Loss.NONE
                    continue
                loss, self._loss, self.lost = self._loss, Loss.NONE, False
                self.end = max(self.end, (packet.pos or 0) + packet.size)
                yield frame, loss

    def _packets(self) -> Iterator[av.Packet]:
        packets = self._track.container.demux(self._track.stream)
        while True:
            with av.logging.Capture() as logs:
                try:
                    packet = next(packets, None)
                except MemoryError:
                    raise
                # OSError: a seek beyond the file. IndexError: PyAV does not know a later track.
                except (av.error.FFmpegError, OSError, IndexError):
                    self.lost = True
                    return
            if logs:
                self._found(Loss.MENDED)
                self.lost = True
            if packet is None:
                return
            yield packet

    def _decoded(self, packet: av.Packet) -> list[av.AudioFrame]:
        if packet.size and self._format in RAW:
            content = bytes(packet)
            if is_tag(content):
                return []
            if not is_whole(self._format, content):
                self._found(Loss.PACKET)
                self.lost = any(content)  # zeros at the end are padding
                return []
        with av.logging.Capture() as logs:
            try:
                frames: list[av.AudioFrame] = packet.decode()
            except MemoryError:
                raise
            except av.error.FFmpegError:
                self._found(Loss.PACKET)
                self.lost = True
                return []
        # A PCM decoder only complains of bytes at the end that are less than a sample.
        if logs and not self._codec.startswith("pcm_"):
            self._found(Loss.FAULT)
        return frames

    def _found(self, loss: Loss) -> None:
        self._loss = max(self._loss, loss, key=lambda one: one.value)


def time_of(frame: av.AudioFrame) -> float | None:
    """Return the time at which a frame begins, in seconds of its container."""
    unit = frame.time_base
    if frame.pts is None or not unit:
        return None
    return float(frame.pts * unit.numerator / unit.denominator)
