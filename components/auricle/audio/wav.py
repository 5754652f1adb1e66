"""Reads WAV headers at the start of streams, and writes them for samples. No I/O."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from auricle.core.errors import UndecodableAudio, UnsupportedValue

_LONGEST = 64 * 1024  # bytes of a header, with the chunks before the audio
_RIFF_BYTES = 12
_CODES = {1: "pcm_s16le", 6: "pcm_alaw", 7: "pcm_mulaw"}
_EXTENSIBLE = 0xFFFE
_UNKNOWN_SIZE = (0, 0xFFFFFFFF)  # in a file that is sent while it is written


@dataclass(frozen=True)
class WavHeader:
    """`encoding` is one of `audio.pcm.ENCODINGS`; `size` is the audio's, None if unknown."""

    encoding: str
    sample_rate: int
    size: int | None


class Opening:
    """The start of a stream, until a WAV header is found or excluded."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._at = _RIFF_BYTES  # of the next chunk
        self._form: bytes | None = None

    def push(self, data: bytes) -> tuple[WavHeader | None, bytes] | None:
        """Append bytes; return the header, or None without one, and the audio so far.

        Returns None while more bytes are needed. Raises UnsupportedValue for audio of another
        kind, UndecodableAudio for a malformed header.
        """
        held = self._held
        held += data
        if not _may_be_wav(bytes(held[:_RIFF_BYTES])):
            return None, self._rest(0)
        while len(held) >= self._at + 8:
            begin = self._at + 8
            name = held[self._at : self._at + 4]
            size = int.from_bytes(held[self._at + 4 : begin], "little")
            if name == b"data":
                return _header(self._form, size), self._rest(begin)
            if begin + size > _LONGEST:
                raise UndecodableAudio(f"the WAV header has more than {_LONGEST} bytes")
            if name == b"fmt ":
                if len(held) < begin + size:
                    break
                self._form = bytes(held[begin : begin + size])
            self._at = begin + size + size % 2
        return None

    @property
    def begun(self) -> bool:
        """Whether bytes are held."""
        return bool(self._held)

    def _rest(self, begin: int) -> bytes:
        rest = bytes(self._held[begin:])
        self._held.clear()
        return rest


def is_wav(data: bytes) -> bool:
    """Whether a file begins like a WAV file."""
    return len(data) >= _RIFF_BYTES and _may_be_wav(data[:_RIFF_BYTES])


def wav_header(encoding: str, sample_rate: int, size: int) -> bytes:
    """Return the header for `size` bytes of samples."""
    code = next(code for code, name in _CODES.items() if name == encoding)
    width = 2 if encoding == "pcm_s16le" else 1
    form = struct.pack("<HHIIHH", code, 1, sample_rate, sample_rate * width, width, 8 * width)
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size)
    return b"RIFF" + struct.pack("<I", len(chunks) + size) + chunks


def _may_be_wav(begin: bytes) -> bool:
    return b"RIFF".startswith(begin[:4]) and b"WAVE".startswith(begin[8:_RIFF_BYTES])


def _header(form: bytes | None, size: int) -> WavHeader:
    if form is None or len(form) < 16:
        raise UndecodableAudio("the WAV header has no valid format chunk")
    code, channels, rate, _, _, bits = struct.unpack("<HHIIHH", form[:16])
    if code == _EXTENSIBLE and len(form) >= 26:
        (code,) = struct.unpack("<H", form[24:26])
    encoding = _CODES.get(code)
    if encoding is None or bits != (16 if encoding == "pcm_s16le" else 8):
        raise UnsupportedValue(
            f"the WAV header has format {code} of {bits} bits: live audio must be 16-bit PCM, "
            "µ-law or A-law"
        )
    if channels != 1:
        raise UnsupportedValue(
            f"the WAV header has {channels} channels: live audio must have one; "
            "make a call for each channel"
        )
    return WavHeader(encoding, rate, None if size in _UNKNOWN_SIZE else size)
