"""Recordings made to cost more than they are worth, written byte by byte. No I/O, no encoder.

    for name, data in bombs(seed): …

Each is small, some player accepts each, and each has an excess of one thing: packets, silence,
channels, tracks, nesting, or a false length.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import cache

_HOUR = 3600


def bombs(seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content); the same for the same seed."""
    rng = random.Random(seed)
    noise = rng.randbytes(3 * 16_000 * 2)
    yield "packets.mkv", one_sample_packets(rng.randint(100_000, 200_000))
    yield "empty-packets.mkv", matroska([pcm_track()], [b""] * rng.randint(100_000, 200_000))
    yield "silence.flac", silent_flac(4 * _HOUR, 16_000, 1)
    yield "wide-silence.flac", silent_flac(_HOUR, 96_000, 8)
    yield "rates.flac", flac_of_many_rates(rng.randint(1_000, 5_000))
    yield "wide.wav", wav(rng.randbytes(32 * 2 * 19_200), rate=192_000, channels=32)
    yield "wide.mkv", matroska([pcm_track(192_000, 32)], [rng.randbytes(32 * 2 * 192)] * 50)
    yield "tracks.mkv", matroska([pcm_track(number=n) for n in range(1, 120)], [noise])
    yield "many-tracks.mkv", matroska([pcm_track(number=n) for n in range(1, 3_000)], [noise])
    yield "attachments.mkv", attachments(noise, rng.randbytes(1 << 20), rng.randint(2, 20))
    yield "zlib.mkv", compressed_packets(rng.randint(20, 40))
    yield "lying.wav", wav(noise, stated=0xFFFFFFFF)
    yield "short.wav", wav(noise, stated=rng.randrange(0, 200, 2))
    yield "lying.flac", silent_flac(60, 16_000, 1, stated=(1 << 36) - 1)
    yield "lying.ogg", ogg_opus(granules=rng.randrange(1 << 62, 1 << 63))
    yield "chained.ogg", b"".join(ogg_opus(serial=n) for n in range(rng.randint(500, 2_000)))
    yield "lying.mp3", mp3(frames=100, stated=0xFFFFFFFF)
    yield "tags.mp3", id3(rng.randbytes(1 << 20), stated=0x0FFFFFFF) + mp3(frames=10)
    yield "samples.mp4", mp4(samples=0x7FFFFFFF)
    yield "duration.mp4", mp4(samples=100, duration=0xFFFFFFFF)
    yield "nested.mp4", nested_atoms(rng.randint(1_000, 5_000))
    yield "large-frames.mkv", large_frames(noise)
    yield "other-file.txt", f"ffconcat version 1.0\nfile {rng.randint(3, 30)}\n".encode()


# ── Matroska ────────────────────────────────────────────────────────────────


def element(identity: int, content: bytes) -> bytes:
    """Return an EBML element whose size takes eight bytes."""
    name = identity.to_bytes((identity.bit_length() + 7) // 8, "big")
    return name + (len(content) | 1 << 56).to_bytes(8, "big") + content


def pcm_track(
    rate: int = 16_000,
    channels: int = 1,
    number: int = 1,
    extra: bytes = b"",
    codec: bytes = b"A_PCM/INT/LIT",
) -> bytes:
    """Return the entry of a track of 16-bit PCM; its header may name another codec."""
    audio = element(0xB5, struct.pack(">d", rate)) + element(0x9F, bytes([channels]))
    return element(
        0xAE,
        element(0xD7, number.to_bytes(2, "big"))
        + element(0x73C5, number.to_bytes(2, "big"))
        + element(0x83, b"\x02")
        + element(0x86, codec)
        + element(0xE1, audio + element(0x6264, b"\x10"))
        + extra,
    )


def matroska(
    tracks: Sequence[bytes],
    packets: Sequence[bytes],
    extra: bytes = b"",
    times: Sequence[int] = (),
) -> bytes:
    """Return a file whose packets all belong to track 1, at `times` in ms, by default all at 0."""
    header = element(0x1A45DFA3, element(0x4282, b"matroska") + element(0x4287, b"\x04"))
    blocks = [
        b"\xa3" + (len(packet) + 4 | 1 << 28).to_bytes(4, "big") + b"\x81\x00\x00\x80" + packet
        for packet in packets
    ]
    info = element(0x1549A966, element(0x2AD7B1, (1_000_000).to_bytes(4, "big")))
    # A cluster for each time, or one for all packets.
    parts = zip(times, blocks, strict=True) if times else [(0, b"".join(blocks))]
    clusters = b"".join(
        element(0x1F43B675, element(0xE7, at.to_bytes(8, "big")) + part) for at, part in parts
    )
    return header + element(
        0x18538067, info + element(0x1654AE6B, b"".join(tracks)) + extra + clusters
    )


def one_sample_packets(count: int, rate: int = 192_000) -> bytes:
    """Return a file of `count` packets of one sample each, about 11 bytes per packet."""
    return matroska([pcm_track(rate)], [b"\x10\x01"] * count)


def attachments(audio: bytes, attached: bytes, count: int) -> bytes:
    """Return a recording that carries files, with names that point elsewhere."""
    files = b"".join(
        element(
            0x61A7,
            element(0x466E, b"../../../etc/passwd\x00.ttf")
            + element(0x4660, b"application/x-truetype-font")
            + element(0x465C, attached)
            + element(0x46AE, (number + 1).to_bytes(8, "big")),
        )
        for number in range(count)
    )
    packets = [audio[start : start + 3_200] for start in range(0, len(audio), 3_200)]
    return matroska([pcm_track()], packets, element(0x1941A469, files))


def compressed_packets(count: int) -> bytes:
    """Return packets of 8 MiB of silence, each compressed to 8 KiB."""
    compression = element(0x5034, element(0x4254, b"\x00"))
    encodings = element(0x6D80, element(0x6240, compression))
    packet = zlib.compress(bytes(8 << 20), 9)
    return matroska([pcm_track(extra=encodings)], [packet] * count)


def large_frames(audio: bytes) -> bytes:
    """Return a track of ALAC whose decoder allocates some 64 MiB a buffer when it is opened."""
    samples = 4096 * 4096  # per frame: FFmpeg's maximum
    form = struct.pack(">IBBBBBBHIII", samples, 0, 16, 40, 10, 14, 1, 255, 0, 0, 16_000)
    return matroska([pcm_track(extra=element(0x63A2, form), codec=b"A_ALAC")], [audio])


# ── FLAC ────────────────────────────────────────────────────────────────────

_FLAC_BLOCK = 65_535
_FLAC_RATES = {96_000: 0x0B, 48_000: 0x0A, 44_100: 0x09, 16_000: 0x05, 8_000: 0x04}


def silent_flac(seconds: int, rate: int, channels: int, stated: int | None = None) -> bytes:
    """Return silence, which takes about 15 bytes per 65,535 samples.

    The header states `stated` samples, by default the real number.
    """
    count = seconds * rate // _FLAC_BLOCK
    frames = (_silent_frame(number, rate, channels) for number in range(count))
    return _flac_header(rate, channels, count * _FLAC_BLOCK if stated is None else stated) + (
        b"".join(frames)
    )


def flac_of_many_rates(count: int) -> bytes:
    """Return frames whose sample rate changes from each frame to the next."""
    rates = list(_FLAC_RATES)
    frames = (_silent_frame(n, rates[n % len(rates)], 1) for n in range(count))
    return _flac_header(rates[0], 1, 0) + b"".join(frames)


def _flac_header(rate: int, channels: int, samples: int) -> bytes:
    form = rate << 44 | (channels - 1) << 41 | 15 << 36 | samples
    info = struct.pack(">HH6x", _FLAC_BLOCK, _FLAC_BLOCK) + form.to_bytes(8, "big") + bytes(16)
    return b"fLaC" + b"\x80" + len(info).to_bytes(3, "big") + info


def _silent_frame(number: int, rate: int, channels: int) -> bytes:
    head = bytes([0xFF, 0xF8, 0x70 | _FLAC_RATES[rate], (channels - 1) << 4 | 0x08])
    head += chr(number).encode("utf-8", "surrogatepass") + struct.pack(">H", _FLAC_BLOCK - 1)
    head += bytes([_crc(head, 8, 0x07)])
    body = head + b"\x00\x00\x00" * channels
    return body + _crc(body, 16, 0x8005).to_bytes(2, "big")


def _crc(data: bytes, bits: int, polynomial: int) -> int:
    table, crc, mask = _crc_table(bits, polynomial), 0, (1 << bits) - 1
    for byte in data:
        crc = (crc << 8 & mask) ^ table[crc >> bits - 8 ^ byte]
    return crc


@cache
def _crc_table(bits: int, polynomial: int) -> list[int]:
    table = []
    for byte in range(256):
        crc = byte << bits - 8
        for _ in range(8):
            crc = crc << 1 ^ (polynomial if crc >> bits - 1 & 1 else 0)
        table.append(crc & (1 << bits) - 1)
    return table


# ── WAV, Ogg, MP3, MP4 ──────────────────────────────────────────────────────


def wav(data: bytes, rate: int = 16_000, channels: int = 1, stated: int | None = None) -> bytes:
    """Return 16-bit PCM whose header states `stated` bytes, by default the real number."""
    size = len(data) if stated is None else stated
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    riff = min(size + 36, 0xFFFFFFFF)
    return (
        struct.pack("<4sI4s4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16)
        + form
        + (struct.pack("<4sI", b"data", size) + data)
    )


def ogg_opus(serial: int = 1, granules: int = 48_000) -> bytes:
    """Return one second of silent Opus whose last page states `granules` samples."""
    head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, 0, 48_000, 0, 0)
    tags = struct.pack("<8sI0sI", b"OpusTags", 0, b"", 0)
    return (
        _ogg_page([head], serial, 0, 2, 0)
        + _ogg_page([tags], serial, 1, 0, 0)
        + _ogg_page([b"\xf8\xff\xfe"] * 50, serial, 2, 4, granules)
    )


def _ogg_page(
    packets: Sequence[bytes], serial: int, number: int, flags: int, granule: int
) -> bytes:
    form = struct.Struct("<4sBBQIIIB")
    lengths = bytes(len(packet) for packet in packets)
    body = lengths + b"".join(packets)
    fields = (b"OggS", 0, flags, granule, serial, number)
    crc = _crc(form.pack(*fields, 0, len(packets)) + body, 32, 0x04C11DB7)
    return form.pack(*fields, crc, len(packets)) + body


def mp3(frames: int, stated: int = 0) -> bytes:
    """Return silent frames of 24 ms at 16 kHz, 32 kbit/s; the Xing header states `stated`."""
    head = b"\xff\xf3\x48\xc4"
    silent = head + bytes(144 - len(head))
    xing = head + bytes(9) + struct.pack(">4sII", b"Xing", 1, stated or frames)
    return xing + bytes(144 - len(xing)) + silent * frames


def id3(picture: bytes, stated: int) -> bytes:
    """Return an ID3v2 tag with a picture, whose header states `stated` bytes."""
    frame = b"\x00image/png\x00\x03\x00" + picture
    size = bytes(stated >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\x00\x00" + size + struct.pack(">4sIH", b"APIC", len(frame), 0) + frame


def atom(name: bytes, content: bytes) -> bytes:
    """Return an MP4 box."""
    return struct.pack(">I4s", len(content) + 8, name) + content


def mp4(samples: int, duration: int = 16_000) -> bytes:
    """Return PCM whose tables state `samples` samples of 2 bytes, and `duration` of 16 kHz."""
    entry = bytes(6) + struct.pack(">HQHHIHH", 1, 0, 1, 16, 0, 16_000, 0)
    tables = (
        atom(b"stsd", struct.pack(">II", 0, 1) + atom(b"sowt", entry))
        + atom(b"stts", struct.pack(">IIII", 0, 1, samples, 1))
        + atom(b"stsc", struct.pack(">IIIII", 0, 1, 1, samples, 1))
        + atom(b"stsz", struct.pack(">III", 0, 2, samples))
        + atom(b"stco", struct.pack(">III", 0, 1, 32))
    )
    handler = atom(b"hdlr", struct.pack(">II4s12xB", 0, 0, b"soun", 0))
    mdhd = atom(b"mdhd", struct.pack(">IIIIIHH", 0, 0, 0, 16_000, duration, 0, 0))
    media = mdhd + handler + atom(b"minf", atom(b"stbl", tables))
    tkhd = atom(b"tkhd", struct.pack(">IIIIII60x", 1, 0, 0, 1, 0, duration))
    mvhd = atom(b"mvhd", struct.pack(">IIIII80x", 0, 0, 0, 16_000, duration))
    trak = atom(b"trak", tkhd + atom(b"mdia", media))
    start = atom(b"ftyp", b"M4A \x00\x00\x00\x00M4A isom")
    return start + atom(b"mdat", bytes(32_000)) + atom(b"moov", mvhd + trak)


def nested_atoms(depth: int) -> bytes:
    """Return boxes that contain each other, `depth` times."""
    made = atom(b"udta", b"")
    for _ in range(depth):
        made = atom(b"trak", made)
    return atom(b"ftyp", b"M4A \x00\x00\x00\x00") + atom(b"moov", made)
