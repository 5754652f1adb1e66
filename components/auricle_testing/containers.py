"""Recordings in every container and common codecs, whole or spoiled, encoded by FFmpeg.

    for name in CONTAINERS: data = encoded(name, [(0.0, samples), (30.0, others)])

The second piece begins at 30 s: a recorder that was paused leaves such a gap.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import av
import numpy as np
import soxr

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import Float32


@dataclass(frozen=True)
class Encoding:
    """A container and a codec by FFmpeg's names, the rate in Hz, and options of the container."""

    container: str
    codec: str
    rate: int = SAMPLE_RATE
    options: dict[str, str] = field(default_factory=dict)


_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "500000"}
CONTAINERS = {
    "wav": Encoding("wav", "pcm_s16le"),
    "wav-ulaw": Encoding("wav", "pcm_mulaw", 8_000),
    "wav-adpcm": Encoding("wav", "adpcm_ms"),
    "w64": Encoding("w64", "pcm_s16le"),
    "aiff": Encoding("aiff", "pcm_s16be"),
    "au": Encoding("au", "pcm_s16be"),
    "caf": Encoding("caf", "pcm_s16be"),
    "caf-alac": Encoding("caf", "alac"),
    "flac": Encoding("flac", "flac"),
    "mp3": Encoding("mp3", "libmp3lame", 44_100),
    "mp3-16k": Encoding("mp3", "libmp3lame"),
    "aac": Encoding("adts", "aac", 44_100),
    "amr": Encoding("amr", "libopencore_amrnb", 8_000),
    "ogg-opus": Encoding("ogg", "libopus", 48_000),
    "ogg-vorbis": Encoding("ogg", "vorbis", 48_000),
    "ogg-flac": Encoding("ogg", "flac"),
    "m4a": Encoding("ipod", "aac", 48_000),
    "m4a-alac": Encoding("ipod", "alac"),
    "mp4-opus": Encoding("mp4", "libopus", 48_000),
    "mp4-flac": Encoding("mp4", "flac"),
    "mp4-mp3": Encoding("mp4", "libmp3lame", 44_100),
    "mp4-fragments": Encoding("mp4", "aac", 48_000, _FRAGMENTS),
    "mov-pcm": Encoding("mov", "pcm_s16le"),
    "webm": Encoding("webm", "libopus", 48_000),
    "webm-live": Encoding("webm", "libopus", 48_000, {"live": "1"}),
    "webm-vorbis": Encoding("webm", "vorbis", 44_100),
    "mkv-aac": Encoding("matroska", "aac", 44_100),
    "mkv-flac": Encoding("matroska", "flac"),
    "mkv-pcm": Encoding("matroska", "pcm_s16le"),
    "mkv-mp3": Encoding("matroska", "libmp3lame", 44_100),
    "mkv-ac3": Encoding("matroska", "ac3", 48_000),
    "wma": Encoding("asf", "wmav2", 44_100),
    "wma-mp3": Encoding("asf", "libmp3lame", 44_100),
    "avi-pcm": Encoding("avi", "pcm_s16le"),
    "avi-mp3": Encoding("avi", "libmp3lame", 44_100),
    "avi-aac": Encoding("avi", "aac", 44_100),
    "mpeg-mp2": Encoding("mpeg", "mp2", 44_100),
    "mpeg-ac3": Encoding("mpeg", "ac3", 48_000),
    "ts-aac": Encoding("mpegts", "aac", 48_000),
    "ts-mp2": Encoding("mpegts", "mp2", 48_000),
    "ts-opus": Encoding("mpegts", "libopus", 48_000),
}
_VALUES = {"flt": (1.0, np.float32), "s16": (32_767.0, np.int16), "s32": (2.0**31 - 1e3, np.int32)}
Damage = Literal["hole", "zeroed", "cut", "joined"]
DAMAGES: tuple[Damage, ...] = ("hole", "zeroed", "cut", "joined")
# Samples of PCM may be zeros: that is silence. An MPEG program stream that ends between two packets
# has no length and needs no end.
_PCM = ("wav", "wav-ulaw", "wav-adpcm", "w64", "aiff", "au", "caf", "mov-pcm")
CANNOT_BE_SEEN = {*((name, "zeroed") for name in _PCM), ("mpeg-mp2", "cut")}


def encoded(name: str, pieces: Sequence[tuple[float, Float32]], channels: int = 1) -> bytes:
    """Return a file of pieces, each from its time in seconds: (samples,) at 16 kHz.

    Its first channel has the samples, the second one, if any, has them with the sign changed.
    """
    how = CONTAINERS[name]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with av.open(file, "w", format=how.container, options=how.options) as output:
            stream = output.add_stream(how.codec, rate=how.rate)
            context: Any = stream.codec_context
            stereo = channels == 2 or how.codec == "vorbis"
            context.layout = "stereo" if stereo else "mono"
            if how.codec == "wmav2":  # it has no default
                context.bit_rate = 64_000
            context.options = {"strict": "experimental"}
            context.open(strict=False)
            for begin, samples in pieces:
                wave = samples if how.rate == SAMPLE_RATE else _resampled(samples, how.rate)
                planes = np.stack([wave, wave * (-1 if channels == 2 else 1)][: 1 + stereo])
                for frame in _frames(planes, round(begin * how.rate), context):
                    output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return file.getvalue()


def _resampled(samples: Float32, rate: int) -> Float32:
    found: Float32 = soxr.resample(samples, SAMPLE_RATE, rate)
    return found


def _frames(planes: Float32, begin: int, context: Any) -> list[av.AudioFrame]:
    """Return frames of the codec's size, the last one padded, from sample `begin`."""
    size, kind = context.frame_size or 1024, context.format.name
    factor, dtype = _VALUES[kind.removesuffix("p")]
    frames = []
    for at in range(0, planes.shape[1], size):
        part = planes[:, at : at + size]
        if context.frame_size:
            part = np.pad(part, ((0, 0), (0, size - part.shape[1])))
        values = (part * factor).astype(dtype)
        values = values if kind.endswith("p") else values.T.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(values), format=kind, layout=context.layout.name
        )
        frame.sample_rate = context.sample_rate
        frame.time_base, frame.pts = Fraction(1, context.sample_rate), begin + at
        frames.append(frame)
    return frames


def spoiled(data: bytes, damage: Damage) -> bytes:
    """Return a file with a twentieth taken out of its middle or zeroed, its end cut off, or twice.

    The number of bytes is odd, so that frames do not fit in it. The end is cut within a frame: raw
    AMR has no total length, so a file that ends between two frames is not known to be cut.
    """
    begin = len(data) // 2 + 1
    end = begin + len(data) // 20 | 1
    match damage:
        case "hole":
            return data[:begin] + data[end:]
        case "zeroed":
            return data[:begin] + bytes(end - begin) + data[end:]
        case "cut":
            return data[: len(data) * 6 // 10 - 3 | 1]
        case "joined":
            return data * 2
