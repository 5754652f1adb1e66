"""Everything a live client can send, each kind as a function of its size."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from auricle.audio.constants import BINS, HOP
from auricle.audio.features import pack
from auricle_testing import wire
from auricle_testing.noise import noise, speech_like

STREAM, REALTIME = "/v1/audio/stream", "/v1/realtime"
_END = wire.message({"type": "end"})
_FRAME_LIMIT = 1 << 20
LAST = "the-last-event"  # when the server names it, a client of `/v1/realtime` leaves
_FRAMES = np.full((1, BINS), -4.0, np.float32)


@dataclass(frozen=True)
class Input:
    """One kind of input: the client sends `data(n)` after the handshake at `path`.

    `size` is an n with about ten thousand operations.
    """

    name: str
    path: str
    size: int
    data: Callable[[int], bytes]


def _session(frames: Callable[[int], bytes], **start: Any) -> Callable[[int], bytes]:
    first = wire.message({"type": "start", "sample_rate": 16_000, **start})
    return lambda n: first + frames(n) + _END


def _answered(data: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Append an invalid event: the error names its id once all events before it were handled."""
    last = _event("session.update", session={"type": "unknown"}, event_id=LAST)
    return lambda n: data(n) + last


def _open(chunk_ms: int) -> dict[str, Any]:
    return {"endpointing": {"enabled": False}, "chunk_ms": chunk_ms}


def _odd(data: bytes) -> bytes:
    """Cut `data` into frames of 1, 2, 3, … 40 bytes, and again."""
    frames, at, size = [], 0, 0
    while at < len(data):
        size = size % 40 + 1
        frames.append(wire.frame(wire.BINARY, data[at : at + size]))
        at += size
    return b"".join(frames)


def _log_mel(packets: int) -> bytes:
    """Packets of one frame each, in segments of two seconds."""
    frames = []
    for number in range(packets):
        segment, within = divmod(number, 200)
        samples = (within + 1) * HOP
        last = within == 199 or number == packets - 1
        data = pack(segment * 32_000, within, samples, _FRAMES, last=last, dtype="float32")
        frames.append(wire.frame(wire.BINARY, data))
    return b"".join(frames)


def _log_mel_segments(segments: int) -> bytes:
    """Segments of one frame each."""
    return b"".join(
        wire.frame(wire.BINARY, pack(n * HOP, 0, HOP, _FRAMES, last=True, dtype="float32"))
        for n in range(segments)
    )


def _append(data: bytes) -> bytes:
    audio = base64.b64encode(data).decode()
    return wire.message({"type": "input_audio_buffer.append", "audio": audio})


def _event(kind: str, **fields: Any) -> bytes:
    return wire.message({"type": kind, **fields})


def _turns(turns: int) -> bytes:
    manual = _event("session.update", session={"audio": {"input": {"turn_detection": None}}})
    one = _append(noise(4_800)) + _event("input_audio_buffer.commit")
    return manual + turns * one


def _wide_update(fields: int) -> bytes:
    return _event("session.update", session={f"field{n}": n for n in range(fields)})


def _token(characters: int) -> bytes:
    """A start that resumes with a token of that size, which looks valid until it is opened."""
    resume = {"token": "AQ".ljust(characters, "A"), "from_sample": 0}
    return wire.message({"type": "start", "sample_rate": 16_000, "resume": resume})


_MU_LAW = {"encoding": "pcm_mulaw", "sample_rate": 8_000}
_CYCLE = 19_200  # samples of speech and silence at 16 kHz, see `speech_like`
STREAM_INPUTS: tuple[tuple[str, int, Callable[[int], bytes], dict[str, Any]], ...] = (
    ("one-byte frames, chunks of 80 ms", 300, lambda n: wire.binary(noise(n)[:n], 1), _open(80)),
    ("one-sample frames", 300, lambda n: wire.binary(noise(n), 2), {}),
    ("odd splits", 3_200, lambda n: _odd(noise(n)), {"chunk_ms": 80}),
    ("empty frames", 300, lambda n: n * wire.frame(wire.BINARY, b""), {}),
    ("fragments of one byte", 600, lambda n: wire.fragments(noise(n)[:n], 1), {}),
    ("pings", 300, lambda n: n * wire.frame(wire.PING, b"x"), {}),
    (
        "frames of the largest size",
        6 * _CYCLE,
        lambda n: wire.binary(noise(n), _FRAME_LIMIT),
        {"chunk_ms": 10_000},
    ),
    (
        "the largest frames of speech and silence",
        4 * _CYCLE,
        lambda n: wire.binary(speech_like(n), _FRAME_LIMIT),
        {},
    ),
    (
        "the largest frames, not listened to",
        6 * _CYCLE,
        lambda n: wire.binary(noise(n), _FRAME_LIMIT),
        _open(80),
    ),
    ("mu-law in large frames", 12 * 8_000, lambda n: wire.binary(bytes(n), _FRAME_LIMIT), _MU_LAW),
    ("mu-law in frames of 20 ms", 2 * 8_000, lambda n: wire.binary(bytes(n), 160), _MU_LAW),
    (
        "44.1 kHz in frames of 20 ms",
        52_920,
        lambda n: wire.binary(speech_like(n, 44_100), 1_764),
        {"sample_rate": 44_100, "chunk_ms": 320},
    ),
    ("silence", 2 * _CYCLE, lambda n: wire.binary(bytes(2 * n), 640), {}),
    ("noise", 2 * _CYCLE, lambda n: wire.binary(noise(n), 640), {"chunk_ms": 80}),
    ("speech and silence", 2 * _CYCLE, lambda n: wire.binary(speech_like(n), 640), {}),
    (
        "speech and silence, cut late",
        4 * _CYCLE,
        lambda n: wire.binary(speech_like(n), 3_200),
        {"endpointing": {"min_silence_ms": 10_000, "pre_roll_ms": 2_000}, "chunk_ms": 10_000},
    ),
    ("log-mel packets of one frame", 50, _log_mel, {"encoding": "log_mel"}),
    ("log-mel segments of one frame", 50, _log_mel_segments, {"encoding": "log_mel"}),
)
REALTIME_INPUTS = (
    ("appends of one byte", 80, lambda n: n * _append(b"\0")),
    ("empty appends", 80, lambda n: n * _append(b"")),
    ("appends of 20 ms", 64, lambda n: b"".join(_append(noise(480)) for _ in range(n))),
    (
        "appends of the largest size",
        4 * 24_000,
        lambda n: b"".join(_append(noise(n)[at : at + 700_000]) for at in range(0, 2 * n, 700_000)),
    ),
    ("clears", 60, lambda n: n * _event("input_audio_buffer.clear")),
    ("commits of nothing", 40, lambda n: n * _event("input_audio_buffer.commit")),
    ("updates", 20, lambda n: n * _event("session.update", session={"type": "transcription"})),
    ("turns of 200 ms", 16, _turns),
    ("an update with many fields", 400, _wide_update),
    ("events of no known type", 60, lambda n: n * wire.message({"type": "x" * 100})),
)
INPUTS = (
    *(
        Input(name, STREAM, size, _session(frames, **start))
        for name, size, frames, start in STREAM_INPUTS
    ),
    Input("a resume token", STREAM, 4_000, _token),
    *(Input(name, REALTIME, size, _answered(data)) for name, size, data in REALTIME_INPUTS),
)
