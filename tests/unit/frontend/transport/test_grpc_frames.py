"""HTTP/2 frames on their way through the gRPC port, however they are cut."""

from __future__ import annotations

import pytest

from auricle.frontend.transport.grpc.frames import (
    END_HEADERS,
    FrameKind,
    Http2Reader,
    frame,
    header_block,
)

pytestmark = pytest.mark.unit
SENT = [
    frame(FrameKind.HEADERS, 0, 1, b"abc"),
    frame(FrameKind.CONTINUATION, END_HEADERS, 1, b"de"),
    frame(FrameKind.DATA, 0, 1, b"hello"),
    frame(FrameKind.DATA, 1, 1),
    frame(FrameKind.HEADERS, END_HEADERS, 3, b"f"),
]


class Listener:
    """Replaces the last frame of each block of headers by two."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self.payloads = b""
        self._withheld: tuple[int, int, int] | None = None  # kind, flags, stream
        self._payload = b""

    def begin(self, kind: int, flags: int, stream: int, size: int) -> bool:
        self.seen.append((kind, stream, size))
        self._payload = b""
        if kind in (FrameKind.HEADERS, FrameKind.CONTINUATION) and flags & END_HEADERS:
            self._withheld = kind, flags & ~END_HEADERS, stream
        return self._withheld is None

    def payload(self, part: memoryview) -> None:
        self.payloads += part
        self._payload += part

    def end(self) -> bytes:
        if self._withheld is None:
            return b""
        kind, flags, stream = self._withheld
        self._withheld = None
        more = frame(FrameKind.CONTINUATION, END_HEADERS, stream, b"x")
        return frame(kind, flags, stream, self._payload) + more


@pytest.mark.parametrize("piece", [1, 4, 10, 1_000])
@pytest.mark.parametrize("most", [1, 100])
def test_frames_are_passed_on_however_they_are_cut(piece: int, most: int) -> None:
    listener = Listener()
    reader, data, rest, passed = Http2Reader(listener), b"".join(SENT), b"", bytearray()
    for at in range(0, len(data), piece):
        rest += data[at : at + piece]
        parts: list[bytes | memoryview] = []
        start = 0
        while (stop := reader.read(rest, start, parts, most)) > start:
            start = stop
        rest = rest[start:]
        passed += b"".join(parts)
    assert rest == b""
    assert listener.payloads == b"abcdehellof"
    assert listener.seen == [(1, 1, 3), (9, 1, 2), (0, 1, 5), (0, 1, 0), (1, 3, 1)]
    assert bytes(passed) == b"".join(
        [
            SENT[0],
            frame(FrameKind.CONTINUATION, 0, 1, b"de"),
            frame(FrameKind.CONTINUATION, END_HEADERS, 1, b"x"),
            *SENT[2:4],
            frame(FrameKind.HEADERS, 0, 3, b"f"),
            frame(FrameKind.CONTINUATION, END_HEADERS, 3, b"x"),
        ]
    )


def test_own_frames_come_between_others() -> None:
    reader = Http2Reader(Listener())

    def between_after(data: bytes) -> bool:
        reader.read(data, 0, [], 100)
        return reader.between_frames

    assert between_after(SENT[2])
    assert not between_after(SENT[2][:12])
    assert between_after(b"llo")
    assert not between_after(SENT[0])  # its headers have another frame
    assert between_after(SENT[1])


def test_long_values_have_their_length_in_several_bytes() -> None:
    name = b"\0\x01n"
    assert header_block([("n", "v" * 126)]) == name + b"\x7e" + b"v" * 126
    assert header_block([("n", "v" * 127)]) == name + b"\x7f\x00" + b"v" * 127
    assert header_block([("n", "v" * 1_337)]) == name + b"\x7f\xba\x09" + b"v" * 1_337
