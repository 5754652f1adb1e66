"""Recordings in every container that FFmpeg writes, and the marks of those it only reads."""

from __future__ import annotations

import io
import random
import struct
import warnings
from functools import cache

import av
import numpy as np

from benchmarks.hostile.generators.values import chance, mutated, rubbish

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
# How FFmpeg's demuxers recognise files: those that it cannot write, and those that name others.
MARKS: tuple[bytes, ...] = (
    b"ffconcat version 1.0\nfile '/proc/self/fd/3'\n", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n",
    b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n",
    b"<?xml?><MPD><BaseURL>/etc</BaseURL>", b"[playlist]\nFile1=/etc/passwd\n",
    b";FFMETADATA1\ntitle=x\n", b"<smil><audio src='/etc/x'>", b"RIFF\xff\xff\xff\xffWAVEfmt ",
    b"RIFX\x00\x00\x00$WAVE", b"RF64\xff\xff\xff\xffWAVEds64", b"FORM\x00\x00\xff\xffAIFC",
    b"FORM\x00\x00\x00 8SVX", b"fLaC\x00\x00\x00\"",
    b"OggS\x00\x02" + bytes(20),
    b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f",
    b"\xff\xfb\x90\x00" * 8,
    b"\xff\xf1P\x80" * 8,
    b"\x00\x00\x00 ftypM4A ", b"\x00\x00\x00\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x08moov", b"\x1aE\xdf\xa3\x01\xff\xff\xff\xff\xff\xff\xff",
    b"0&\xb2u\x8ef\xcf\x110&\xb2u\x8ef\xcf\x11", b"caff\x00\x01\x00\x00desc",
    b"FLV\x01\x05\x00\x00\x00\x09", b"#!AMR\n<", b"#!AMR-WB\nD", b"wvpkwvpkwvpkwvpk",
    b"MAC \x96\x0f\x00\x00", b"TTA1\x01\x00\x02\x00",
    b"tBaK\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", b"MPCK", b"MP+\x17", b"ajkg\x02",
    b"DSD \x1c\x00\x00\x00\x00\x00\x00\x00", b"FRM8\x00\x00\x00\x00\x00\x00\x00\x00DSD ", b"OFR ",
    b"twinVQ", b"TWIN97012000", b".RMF\x00\x00\x00\x12", b".ra\xfd\x00\x04", b"NUT",
    b"nut/multimedia container\x00", b"YUV4MPEG2 W1 H1", b"DKIF\x00\x00 \x00",
    b"\x06\x0e+4\x02\x05\x01\x01\r\x01\x02\x01\x01\x02", b"GXF", b"\x00\x00\x01\xba",
    b"\x00\x00\x01\xb3", b"\x00\x00\x00\x01g", b"G\x00\x00\x00" + bytes(184),
    b".snd\x00\x00\x00\x18\xff\xff\xff\xff", b"2BIT", b"4XMV", b"AACD", b"BIKi", b"CRID", b"DEXA",
    b"FILM", b"FSB4", b"HNM4", b"IMPM", b"KWVD", b"LVF.", b"MVhd", b"MThd\x00\x00\x00\x06",
    b"PVF1\n", b"RSD2", b"SIFF", b"SMK2", b"SOUNDS", b"THP\x00", b"VAGp", b"WTV", b"XMV", b"XWMA",
    b"yop", b"Creative Voice File\x1a", b"NIST_1A\n", b"d\xa3\x01\x00", b"\x89PNG\r\n\x1a\n",
    b"GIF89a", b"\xff\xd8\xff", b"BM", b"II*\x00", b"\x00\x00\x01\x00\x01\x00", b"8BPS",
    b"WEBVTT\n\n", b"1\n00:00:00,000 --> 00:00:01,000\nx\n", b"[Script Info]\n", b"%PDF-1",
    b"PK\x03\x04",
)  # fmt: skip


def container(rng: random.Random) -> tuple[str, bytes]:
    """A file: a real one changed, mostly in its header; a lying WAV; or a mark with rubbish."""
    what = rng.randrange(10)
    if what < 6:
        name, data = _file(rng)
        if chance(rng, 0.7):
            head = rng.choice((64, 256, 1_024))
            return name, mutated(rng, data[:head]) + data[head:]
        return name, mutated(rng, data)
    if what < 8:
        mark = rng.choice(MARKS)
        if chance(rng, 0.4):
            mark = mutated(rng, mark)
        filler = bytes(rng.randrange(2_000)) if chance(rng, 0.3) else rubbish(rng, 2_000)
        return "mark", mark + filler
    if what == 8:
        (_, first), (_, second) = _file(rng), _file(rng)
        at = rng.randrange(len(first) + 1)
        return "joined", first[:at] + second[rng.randrange(len(second) + 1) :]
    return "lying WAV", _wav(rng)


def _file(rng: random.Random) -> tuple[str, bytes]:
    """A container that FFmpeg writes, and a file in it."""
    while True:
        name = rng.choice(_names())
        if data := written(name):
            return name, data


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(av.formats_available - _NOT_A_FILE))


@cache
def written(name: str) -> bytes:
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


def _wav(rng: random.Random) -> bytes:
    """A WAV whose sizes, rate, channels and format are what somebody made up."""
    edges = (0, 1, 2, 3, 16, 255, 8_000, 16_000, 65_534, 65_535, 2**31, 2**32 - 1)
    fmt = struct.pack(
        "<HHIIHH",
        rng.choice((1, 2, 3, 6, 7, 17, 0x55, 0xFFFE, 0)),
        rng.choice(edges) % 65_536,
        rng.choice(edges),
        rng.choice(edges),
        rng.choice(edges) % 65_536,
        rng.choice((8, 16, 24, 33, 0)),
    )
    data = rubbish(rng, 3_000)
    return (
        b"RIFF" + struct.pack("<I", rng.choice(edges)) + b"WAVEfmt "
        + struct.pack("<I", rng.choice((16, 18, 40, *edges))) + fmt
        + b"data" + struct.pack("<I", rng.choice(edges)) + data
    )  # fmt: skip
