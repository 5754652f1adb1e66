"""Audio of the streaming protocol: PCM and G.711 of odd sizes, features that lie."""

from __future__ import annotations

import json
import random
import struct

import numpy as np

from benchmarks.hostile.generators.values import INTEGERS, chance, mutated, rubbish

_BINS, _HOP = 128, 160
_SHORT = 20
_EXTREMES = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e30, 65_504.0, -65_504.0, 1e-40, 0.0, -10.0)
Session = list[str | bytes]


def pcm(rng: random.Random) -> tuple[str, Session]:
    """A short session of PCM or G.711 in packets of any size, whole samples or not."""
    encoding = rng.choice(("pcm_s16le", "pcm_mulaw", "pcm_alaw"))
    rate = rng.choice((4_000, 8_000, 11_025, 16_000, 44_100, 48_000, 192_000, 4_001, 191_999))
    start = {"type": "start", "sample_rate": rate, "encoding": encoding}
    if chance(rng, 0.3):
        start["endpointing"] = {"enabled": False}
    most = rate // _SHORT  # bytes; more would be load, which is not what is tried here
    sizes = [rng.choice((0, 1, 2, 3, 159, most, most - 1)) for _ in range(rng.randrange(1, 8))]
    packets = [_samples(rng, size) for size in sizes]
    ended = ['{"type": "end"}'] if chance(rng, 0.8) else []
    return encoding, [json.dumps(start), *packets, *ended]


def _samples(rng: random.Random, size: int) -> bytes:
    what = rng.randrange(4)
    if what == 0:
        return bytes(size)
    if what == 1:
        return (b"\x00\x80\xff\x7f" * (size // 4 + 1))[:size]
    if what == 2:
        return bytes([rng.randrange(256)]) * size
    return rng.randbytes(size)


def features(rng: random.Random) -> tuple[str, Session]:
    """A session of log-mel packets of which at least one lies."""
    dtype = rng.choice(("float32", "float16"))
    start = json.dumps(
        {"type": "start", "sample_rate": 16_000, "encoding": "log_mel", "feature_dtype": dtype}
    )
    packets = [_packet(rng, dtype, 0, 0, 320 * 16, last=False)] if chance(rng, 0.3) else []
    kind = rng.choice(("values", "offsets", "rubbish", "mutated", "order"))
    if kind == "values":
        packets.append(_values(rng, dtype))
    elif kind == "offsets":
        packets.append(_offsets(rng, dtype))
    elif kind == "rubbish":
        packets.append(rubbish(rng, 600))
    elif kind == "mutated":
        packets.append(mutated(rng, _packet(rng, dtype, 0, 0, 1_600, last=True)))
    else:
        for _ in range(3):
            at = rng.choice((0, 1_600, 3_200, 1 << 40, 2**63, 2**64 - 1))
            packets.append(_packet(rng, dtype, at, 0, 1_600, last=chance(rng, 0.7)))
    return kind, [start, *packets, '{"type": "end"}']


def _packet(
    rng: random.Random, dtype: str, start: int, first: int, samples: int, *, last: bool
) -> bytes:
    shape = (samples // _HOP - first, _BINS)
    level = rng.uniform(-10, 2)
    frames = np.random.default_rng(rng.randrange(2**32)).normal(level, 1, shape)
    head = struct.pack("<QIII", start % 2**64, first, samples, int(last))
    return head + frames.astype(np.dtype(dtype).newbyteorder("<")).tobytes()


def _values(rng: random.Random, dtype: str) -> bytes:
    """A packet of the right form with impossible energies."""
    frames = np.full((10, _BINS), -4.0)
    extreme = rng.choice(_EXTREMES)
    if chance(rng, 0.5):
        frames[:] = extreme
    else:
        frames[rng.randrange(10), rng.randrange(_BINS)] = extreme
    with np.errstate(over="ignore"):
        body = frames.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return struct.pack("<QIII", 0, 0, 1_600, 1) + body


def _offsets(rng: random.Random, dtype: str) -> bytes:
    """A packet whose header does not fit what it carries, or nothing that can be."""
    start = rng.choice(INTEGERS) % 2**64
    first, samples, flags = (rng.choice(INTEGERS) % 2**32 for _ in range(3))
    if chance(rng, 0.5):  # empty, so that its length is right
        samples, first, flags = rng.randrange(_HOP), 0, 1
    size = rng.choice((0, 1, 512, 511)) if chance(rng, 0.5) else 0
    return struct.pack("<QIII", start, first, samples, flags) + rubbish(rng, size)
