"""Recordings in every container of FFmpeg, and packets of features with wrong headers or values."""

from __future__ import annotations

import io
import struct
import warnings
from functools import cache

import av
import numpy as np
from hypothesis import strategies as st

from auricle_testing import recordings
from auricle_testing.containers import CONTAINERS, encoded
from benchmarks.hostile.inputs import Post, Session
from benchmarks.hostile.strategies import values as v
from benchmarks.hostile.strategies.http import upload
from benchmarks.hostile.strategies.messages import STREAM
from benchmarks.hostile.strategies.values import Draw, chance, pick

_SECONDS = 0.4
# They write to the network, to devices or to several files.
_NOT_A_FILE = frozenset(
    ("alsa", "sap", "fbdev", "oss", "rtp", "rtp_mpegts", "rtsp", "whip", "tee", "fifo", "hls",
     "dash", "hds", "segment", "stream_segment,ssegment", "smoothstreaming", "image2",
     "webm_chunk", "null", "video4linux2,v4l2", "webm_dash_manifest", "crc", "md5", "hash",
     "framemd5", "framehash", "framecrc", "streamhash", "uncodedframecrc", "mkvtimestamp_v2")
)  # fmt: skip
# Codec (first the container's own) and rate in Hz, tried in turn.
_WAYS = (("", 16_000), ("", 48_000), ("pcm_s16le", 16_000), ("libopus", 48_000), ("aac", 16_000))
# The marks by which FFmpeg recognises files that name others, or that it cannot write.
_MARKS: tuple[bytes, ...] = (
    b"ffconcat version 1.0\nfile '/proc/self/fd/3'\n", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n",
    b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n", b";FFMETADATA1\ntitle=x\n",
    b"<?xml?><MPD><BaseURL>/etc</BaseURL>", b"[playlist]\nFile1=/etc/passwd\n",
    b"<smil><audio src='/etc/x'>", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"RIFX\x00\x00\x00$WAVE",
    b"FORM\x00\x00\x00 8SVX", b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f", b"MAC \x96\x0f\x00\x00",
    b"\x00\x00\x00\x01mdat" + b"\xff" * 8, b"\x1aE\xdf\xa3\x01" + b"\xff" * 7, b"MP+\x17",
    b"tBaK" + bytes(12), b"DSD \x1c" + bytes(7), b"FRM8" + bytes(8) + b"DSD ", b".ra\xfd\x00\x04",
    b"MThd\x00\x00\x00\x06", b"Creative Voice File\x1a", b"THP\x00", b"PK\x03\x04",
    *b"MPCK ajkg OFR  twinVQ TWIN97012000 NUT GXF 2BIT 4XMV AACD BIKi CRID DEXA FILM FSB4 HNM4 "
    b"IMPM KWVD LVF. MVhd PVF1 RSD2 SIFF SMK2 SOUNDS VAGp WTV XMV XWMA yop NIST_1A GIF89a BM 8BPS "
    b"WEBVTT 1 %PDF-1".split(),
)  # fmt: skip


@cache
def _written(name: str) -> bytes:
    """A short tone in that container; empty if FFmpeg cannot write sound into it."""
    for codec, rate in _WAYS:
        try:
            if data := _encoded(name, codec, rate):
                return data
        except (av.error.FFmpegError, ValueError, TypeError, OverflowError, NotImplementedError):
            continue
    return b""


def _encoded(name: str, codec: str, rate: int) -> bytes:
    file = io.BytesIO()
    time = np.arange(int(_SECONDS * rate)) / rate
    tone = (8_000 * np.sin(2 * np.pi * 220 * time)).astype(np.int16)[None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with av.open(file, "w", format=name) as output:
            stream = output.add_stream(codec or output.default_audio_codec, rate=rate)
            frame = av.AudioFrame.from_ndarray(tone, format="s16", layout="mono")
            frame.sample_rate = rate
            for packet in (*stream.encode(frame), *stream.encode(None)):
                output.mux(packet)
    return file.getvalue()


_files = st.sampled_from(sorted(av.formats_available - _NOT_A_FILE)).map(_written).filter(bool)


@st.composite
def uploads(draw: Draw) -> Post:
    """A real file with changes, mostly in its header; two files joined; or a mark with noise."""
    what, file = draw(st.integers(0, 9)), draw(_files)
    if what < 7:
        head = pick(draw, (44, 64, 256, 1_024, 1 << 20))
        data = v.wrong(draw, file[:head]) + file[head:]
    elif what < 9:
        mark = pick(draw, _MARKS)
        data = (v.wrong(draw, mark) if chance(draw, 40) else mark) + draw(v.noise(2_000))
    else:
        data = file[: draw(st.integers(0, len(file)))] + draw(_files)
    return upload(data, pick(draw, ("x.bin", "x.bin", "x.m3u8")), model=v.MODEL)


@cache
def _spoken(name: str, pause: float) -> bytes:
    """A spoken recording in that container, with a pause of that many seconds within."""
    spoken = recordings.samples("hello")
    if not name.startswith(("webm", "mkv", "mp4", "m4a", "ogg")):  # others fill it with padding
        pause = min(pause, 0.5)
    if not pause:
        return encoded(name, [(0.0, spoken)])
    return encoded(name, [(0.0, spoken), (len(spoken) / 16_000 + pause, spoken)])


@st.composite
def damaged(draw: Draw) -> Post:
    """A recording with a gap, a hole, zeros or a cut end, or joined to another."""
    name, pause = pick(draw, sorted(CONTAINERS)), pick(draw, (0.0, 0.0, 0.5, 30.0, 4_000.0))
    data = _spoken(name, pause)
    begin, size = draw(st.integers(0, len(data))), draw(st.integers(1, len(data) // 4))
    match draw(st.integers(0, 4)):
        case 0:
            data = data[:begin] + data[begin + size :]
        case 1:
            data = data[:begin] + bytes(size) + data[begin + size :]
        case 2:
            data = data[:begin]
        case 3:
            data += _spoken(pick(draw, (name, *sorted(CONTAINERS))), 0.0)
    return upload(data, "x.bin", model=v.MODEL, on_damage=pick(draw, ("reject", "keep")))


# Log-mel features.
_BINS, _HOP = 128, 160
_EXTREMES = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e30, 65_504.0, -65_504.0, 1e-40, 0.0, -10.0)


def features(
    frames: np.ndarray, dtype: str = "float32", *, at: int = 0, last: bool = True
) -> bytes:
    """A packet of features."""
    with np.errstate(over="ignore"):
        data = frames.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return struct.pack("<QIII", at % 2**64, 0, len(frames) * _HOP, int(last)) + data


@st.composite
def feature_sessions(draw: Draw) -> Session:
    """A session of features with a wrong value, offset, size or order."""
    dtype, what = pick(draw, ("float32", "float16")), draw(st.integers(0, 4))
    start = {"type": "start", "sample_rate": 16_000, "encoding": "log_mel", "feature_dtype": dtype}
    frames = np.random.default_rng(draw(st.integers(0, 2**32))).normal(-4, 2, (10, _BINS))
    if what == 0:
        frames[draw(st.integers(0, 9)) : 10, draw(st.integers(0, 127)) :] = pick(draw, _EXTREMES)
    packets = [features(frames, dtype, last=what != 3)] * pick(draw, (1, 1, 3))
    if what == 1:
        numbers = [pick(draw, v.INTEGERS) % 2**32 for _ in range(3)]
        if chance(draw, 50):  # an empty packet, whose length is right
            numbers = [0, draw(st.integers(0, _HOP - 1)), 1]
        head = struct.pack("<QIII", pick(draw, v.INTEGERS) % 2**64, *numbers)
        packets.append(head + draw(v.noise(0, 0, 0, 1, 512, 511)))
    elif what == 2:
        packets.append(draw(v.noise(600) | v.mutated(st.just(packets[0]))))
    elif what == 3:
        places = (0, 1_600, 3_200, 1 << 40, 2**63, 2**64 - 1)
        packets += [features(frames, dtype, at=pick(draw, places)) for _ in range(3)]
    sent = (*((2, one) for one in packets), (1, b'{"type": "end"}'))
    return Session(STREAM, ((1, v.as_json(start)), *sent))
