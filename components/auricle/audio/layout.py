"""Finds where recordings begin and end within a file, by the lengths that their headers state.

FFmpeg decodes the first of several joined files without a word on the others, or on a file that is
shorter than its header states. Only headers are read here, never audio, except that MP3 and AMR
are searched for tags and headers between their frames.
"""

from __future__ import annotations

import io
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import BinaryIO

from auricle.audio.raw_frames import mp3_header

Range = tuple[int, int]

# Padding and tags of at most that size after a recording are not reported.
_LITTLE = 4096
_PADDING = 1 << 16  # a rest that begins with as many zeros is padding
_MOST_ELEMENTS = 1_000_000
_PIECE = 1 << 20
# Writers that cannot go back leave 0 or such a size: the recording extends to the end of the file.
_UNKNOWN_SIZE = 0x7F000000


@dataclass(frozen=True)
class FilePart:
    """One recording: the bytes of all `ranges` [start, end), in order.

    `missing`: further bytes that its headers state. `cut`: it ends within a page or packet.
    `stated_seconds`: its length in a header that FFmpeg does not tell from its own estimate; None
    without it.
    """

    ranges: tuple[Range, ...]
    missing: int = 0
    cut: bool = False
    stated_seconds: float | None = None

    @property
    def size(self) -> int:
        return sum(end - start for start, end in self.ranges)


@dataclass(frozen=True)
class FileLayout:
    """The recordings of a file, and the number of bytes after the last one."""

    parts: tuple[FilePart, ...]
    rest: int = 0


def layout(file: BinaryIO, most_parts: int) -> FileLayout:
    """Return the recordings of a file, at most `most_parts`; the others are its rest.

    Files of unknown formats are one recording.
    """
    data = _Bytes(file)
    head = data.at(0, 16)
    if found := _frames_of(data, head):
        return FileLayout((found,))
    parts: list[FilePart] = []
    at = rest = 0
    while True:
        end = _end(data, at)
        if end is None or end >= data.size:
            missing = 0 if end is None else end - data.size
            cut = _cut(data, at)
            parts.append(FilePart(((at, data.size),), missing, cut, _stated(data, at)))
            break
        following = next((p for p in (end, data.after_zeros(end)) if data.begins(p)), None)
        if len(parts) + 1 == most_parts or following is None:
            parts.append(FilePart(((at, data.size),), stated_seconds=_stated(data, at)))
            following = data.after_zeros(end)
            if data.size - following > _LITTLE and any(data.at(following, _PADDING)):
                rest = data.size - following
            break
        parts.append(FilePart(((at, end),)))
        at = following
    return FileLayout(tuple(parts), rest)


class _Bytes:
    """Reads bytes anywhere in a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, io.SEEK_END)

    def at(self, place: int, count: int) -> bytes:
        """Return up to `count` bytes from `place`; none outside the file."""
        if not 0 <= place < self.size:
            return b""
        self._file.seek(place)
        return self._file.read(count)

    def begins(self, place: int) -> bool:
        """Whether a recording begins there, of a format whose headers state its end."""
        return _end_rule(self.at(place, 16)) is not None

    def after_zeros(self, place: int) -> int:
        """Return the place of the next byte that is not 0, if it is near; otherwise `place`."""
        near = self.at(place, _LITTLE)
        return place + len(near) - len(near.lstrip(b"\0")) if near.strip(b"\0") else place

    def matches(self, pattern: re.Pattern[bytes], longest: int, start: int) -> Iterator[Range]:
        """Yield the matches from `start`, none longer than `longest` with its look-ahead."""
        while start < self.size:
            piece = self.at(start, _PIECE + longest)
            for match in pattern.finditer(piece):
                if match.start() < _PIECE:
                    yield start + match.start(), start + match.end()
            start += _PIECE


# ── formats with a length in their header ───────────────────────────────────

_RIFF = (b"RIFF", b"RF64")
_W64 = b"riff.\x91\xcf\x11\xa5\xd6(\xdb\x04\xc1\x00\x00"
_ASF = b"0&\xb2u\x8ef\xcf\x11\xa6\xd9\x00\xaa\x00b\xcel"
_ASF_DATA = b"6&\xb2u\x8ef\xcf\x11\xa6\xd9\x00\xaa\x00b\xcel"
_MP4_FIRST = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")


def _end_rule(head: bytes) -> str | None:
    """Return the format of a recording that begins with `head`, if its headers state its end."""
    if head[:4] in _RIFF:
        return {b"WAVE": "wav", b"AVI ": "avi"}.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "aiff"
    if head[4:8] in _MP4_FIRST:
        return "mp4"
    for mark, name in ((_W64, "w64"), (_ASF, "asf"), (b"caff", "caf"), (b".snd", "au")):
        if head.startswith(mark):
            return name
    return None


def _end(data: _Bytes, start: int) -> int | None:
    """Return the stated end of the recording at `start`; None if it extends to the file's end."""
    rule = _end_rule(data.at(start, 16))
    return None if rule is None else _ENDS[rule](data, start)


def _wav_end(data: _Bytes, start: int) -> int | None:
    wide = None
    at = start + 12
    for _ in range(_MOST_ELEMENTS):
        head = data.at(at, 24)
        if len(head) < 8:
            return None
        name, size = struct.unpack("<4sI", head[:8])
        if name == b"ds64" and len(head) == 24:
            (wide,) = struct.unpack("<Q", head[16:24])
        if name == b"data":
            if size == 0xFFFFFFFF and wide:
                size = wide
            elif size == 0 or size >= _UNKNOWN_SIZE:
                return None
            return _after_chunks(data, at + 8 + size)
        at += 8 + size + size % 2
    return None


def _after_chunks(data: _Bytes, at: int) -> int:
    """Return the end of the chunks, such as tags, that follow a WAV file's audio."""
    for _ in range(_MOST_ELEMENTS):
        # Some writers leave out the byte that makes a size even.
        padded = next((p for p in (at + at % 2, at) if _is_chunk(data.at(p, 8))), None)
        if padded is None:
            return at
        (size,) = struct.unpack("<I", data.at(padded + 4, 4))
        if padded + 8 + size > data.size + 1:
            return at
        at = padded + 8 + size
    return at


def _is_chunk(head: bytes) -> bool:
    name = head[:4]
    return len(head) == 8 and name not in _RIFF and name.isascii() and name.decode().isprintable()


def _avi_end(data: _Bytes, start: int) -> int | None:
    """Return the end of the last of its RIFF lists; FFmpeg itself reads one after the other."""
    at: int = start
    for _ in range(_MOST_ELEMENTS):
        head = data.at(at, 8)
        if len(head) < 8 or head[:4] != b"RIFF":
            return data.size
        (size,) = struct.unpack("<I", head[4:8])
        if not 0 < size < _UNKNOWN_SIZE:
            return None
        at += 8 + size + size % 2
        if at - 1 > data.size:
            return at
    return None


def _aiff_end(data: _Bytes, start: int) -> int | None:
    (size,) = struct.unpack(">I", data.at(start + 4, 4))
    return start + 8 + size if 0 < size < _UNKNOWN_SIZE else None


def _au_end(data: _Bytes, start: int) -> int | None:
    offset, size = struct.unpack(">II", data.at(start + 4, 8).ljust(8, b"\0"))
    return start + offset + size if 0 < size < _UNKNOWN_SIZE else None


def _w64_end(data: _Bytes, start: int) -> int | None:
    (size,) = struct.unpack("<Q", data.at(start + 16, 8).ljust(8, b"\0"))
    return start + size if 40 <= size < 1 << 48 else None


def _caf_end(data: _Bytes, start: int) -> int | None:
    at = start + 8
    for _ in range(_MOST_ELEMENTS):
        head = data.at(at, 12)
        if len(head) < 12 or head.startswith(b"caff") or not head[:4].isalnum():
            return at
        (size,) = struct.unpack(">q", head[4:12])
        if size < 0:
            return None
        at += 12 + size
    return None


def _asf_end(data: _Bytes, start: int) -> int | None:
    at = start
    for _ in range(_MOST_ELEMENTS):
        head = data.at(at, 24)
        if len(head) < 24 or (at > start and head.startswith(_ASF)):
            return at
        (size,) = struct.unpack("<Q", head[16:24])
        if size < 24:  # a live capture
            return None if head.startswith(_ASF_DATA) or at == start else at
        at += size
    return None


def _mp4_end(data: _Bytes, start: int) -> int | None:
    at, seen = start, set[bytes]()
    for _ in range(_MOST_ELEMENTS):
        head = data.at(at, 16)
        name = head[4:8]
        if len(head) < 8 or (name == b"ftyp" and {b"moov", b"mdat"} & seen):
            return at
        if not (name.isascii() and name.decode().isprintable()):
            return at
        (size,) = struct.unpack(">I", head[:4])
        if size == 1 and len(head) == 16:
            (size,) = struct.unpack(">Q", head[8:16])
        if size < 8:
            return data.size if size == 0 else at
        seen.add(name)
        at += size
    return None


_ENDS = {
    "wav": _wav_end,
    "avi": _avi_end,
    "aiff": _aiff_end,
    "au": _au_end,
    "w64": _w64_end,
    "caf": _caf_end,
    "asf": _asf_end,
    "mp4": _mp4_end,
}


_MATROSKA = b"\x1aE\xdf\xa3"
_INFO, _SCALE, _DURATION = b"\x15I\xa9f", b"*\xd7\xb1", b"D\x89"
_INFO_BYTES = 1_024
_SIZE = 0x80  # of an EBML element, in one byte


def _stated(data: _Bytes, start: int) -> float | None:
    """Return the seconds that a header states, where FFmpeg also estimates them from the size.

    AVI has a length for the first audio track, Matroska one for all tracks.
    """
    head = data.at(start, 1 << 16)
    if head.startswith(_MATROSKA):
        info = head[head.find(_INFO) :][:_INFO_BYTES] if _INFO in head else b""
        scale = int.from_bytes(_element(info, _SCALE) or b"\x0fB@", "big")
        duration = _element(info, _DURATION)
        form = {4: ">f", 8: ">d"}.get(len(duration))
        return None if form is None else struct.unpack(form, duration)[0] * scale / 1e9
    if _end_rule(head[:16]) != "avi":
        return None
    at = head.find(b"auds", head.find(b"strh"))
    if at < 0 or head[at - 8 : at - 4] != b"strh" or len(head) < at + 36:
        return None
    scale, rate, _start, length = struct.unpack("<IIII", head[at + 20 : at + 36])
    return length * scale / rate if rate and length < _UNKNOWN_SIZE else None


def _element(info: bytes, name: bytes) -> bytes:
    """Return the content of an EBML element of at most 8 bytes; none if it is not there."""
    at = info.find(name) + len(name)
    size = info[at] - _SIZE if len(name) <= at < len(info) else 0
    return info[at + 1 : at + 1 + size] if 0 < size <= 8 else b""


_OGG_PAGE = 27  # bytes before its table of segments
_LONGEST_PAGE = 65_307
_TS_PACKET = 188


def _cut(data: _Bytes, start: int) -> bool:
    """Whether an Ogg file ends within a page, or an MPEG transport stream within a packet."""
    head = data.at(start, _TS_PACKET + 1)
    if head[:1] == head[_TS_PACKET:] == b"G":
        return (data.size - start) % _TS_PACKET != 0
    if not head.startswith(b"OggS"):
        return False
    tail = data.at(max(start, data.size - _LONGEST_PAGE), _LONGEST_PAGE)
    page = tail[max(0, tail.rfind(b"OggS")) :]
    segments = page[_OGG_PAGE : _OGG_PAGE + page[26]] if len(page) >= _OGG_PAGE else b""
    return len(page) < _OGG_PAGE + len(segments) + sum(segments)


# ── MP3 and AMR: frames, with tags or headers between joined files ──────────

_ID3_HEAD = 10
_TAG = 128
_SYNC = rb"\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff]"  # MPEG audio, not AAC
_TAGS = re.compile(
    rb"ID3[\x02-\x04][\x00-\x0f][\x00-\xf0][\x00-\x7f]{4}|TAG[\s\S]{125}(?=" + _SYNC + rb"|ID3)"
)
_AMR = (b"#!AMR\n", b"#!AMR-WB\n")
_MOST_TAGS = 10  # at the start
_MOST_JOINTS = 100_000


def _frames_of(data: _Bytes, head: bytes) -> FilePart | None:
    """Return an MP3, AMR or FLAC file without the tags and headers between or after its frames."""
    if mark := next((mark for mark in _AMR if head.startswith(mark)), None):
        marks = data.matches(re.compile(re.escape(mark)), len(mark), start=1)
        return FilePart(_without(list(islice(marks, _MOST_JOINTS)), 0, data.size))
    if head.startswith(b"fLaC") and data.at(data.size - _TAG, 3) == b"TAG":
        return FilePart(((0, data.size - _TAG),))
    first = 0
    for _ in range(_MOST_TAGS):
        if data.at(first, 3) == b"ID3":
            first = _after_tag(data, first)
    frame = data.at(first, 256)
    if not re.match(_SYNC, frame):
        return None
    joints: list[Range] = []
    for start, end in islice(data.matches(_TAGS, _TAG + 3, first), _MOST_JOINTS):
        if not joints or start >= joints[-1][1]:
            tagged = data.at(start, 3) == b"ID3"
            joints.append((start, min(data.size, _after_tag(data, start) if tagged else end)))
    return FilePart(_without(joints, 0, data.size), stated_seconds=_xing_seconds(frame))


def _after_tag(data: _Bytes, start: int) -> int:
    """Return the end of the ID3v2 tag at `start`."""
    size = 0
    for byte in data.at(start + 6, 4):
        size = size << 7 | byte & 0x7F
    return start + _ID3_HEAD + size


def _without(holes: list[Range], start: int, end: int) -> tuple[Range, ...]:
    edges = [start, *(edge for hole in holes for edge in hole), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((begin, stop) for begin, stop in pairs if begin < stop)


def _xing_seconds(frame: bytes) -> float | None:
    """Return the length that the first frame of an MP3 file states, by Xing or Fraunhofer."""
    header = mp3_header(frame)
    if header is None or len(frame) < 64:
        return None
    mono = frame[3] >> 6 == 3
    at = 4 + ((17 if mono else 32) if header.is_mpeg1 else (9 if mono else 17))
    frames = 0
    if frame[at : at + 4] in (b"Xing", b"Info") and frame[at + 7] & 1:
        (frames,) = struct.unpack(">I", frame[at + 8 : at + 12])
    elif frame[36:40] == b"VBRI":
        (frames,) = struct.unpack(">I", frame[50:54])
    return frames * header.samples / header.hertz if frames else None


class PartOfFile(io.RawIOBase):
    """Reads the bytes of a file's ranges as a file. `file` must stay open."""

    def __init__(self, file: BinaryIO, ranges: tuple[Range, ...]) -> None:
        self._file = file
        self._ranges = ranges
        # Where each range ends in this file.
        self._ends = list(accumulate(end - start for start, end in ranges))
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._ends[-1]}[whence]
        if base + offset < 0:
            raise OSError("a seek before the start")
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all of them by default; fewer at the end of a range."""
        number = bisect_right(self._ends, self._at)
        if number == len(self._ends):
            return b""
        left = self._ends[number] - self._at
        self._file.seek(self._ranges[number][1] - left)
        found = self._file.read(left if size < 0 else min(size, left))
        self._at += len(found)
        return found
