"""Telephone calls: messages of Twilio's and Vapi's sockets, frames of Asterisk's AudioSocket."""

from __future__ import annotations

import base64
import json
import random
from typing import Any
from urllib.parse import quote

from benchmarks.hostile.generators.values import bent, chance, json_bytes, mutated, rubbish, text

TWILIO, VAPI, AUDIOSOCKET = "/v1/twilio", "/v1/vapi", "audiosocket"
_TWILIO_START: dict[str, Any] = {
    "event": "start",
    "start": {
        "streamSid": "MZ1",
        "callSid": "CA1",
        "tracks": ["inbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8_000, "channels": 1},
        "customParameters": {"language": "en", "context": "Ada"},
    },
}
_TWILIO_OTHERS: tuple[dict[str, Any], ...] = (
    {"event": "connected", "protocol": "Call"},
    {"event": "mark", "streamSid": "MZ1", "mark": {"name": "m"}},
    {"event": "dtmf", "dtmf": {"digit": "1"}},
    {"event": "stop", "stop": {"callSid": "CA1"}},
)
_VAPI_START: dict[str, Any] = {
    "type": "start",
    "encoding": "linear16",
    "container": "raw",
    "sampleRate": 16_000,
    "channels": 2,
}
_VAPI_OPTIONS = {"language": "en", "model": "demo", "context": "Ada"}
_FRAME_KINDS = (0x00, 0x01, 0x03, 0x10, 0x10, 0x12, 0xFF)


def case(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A call by one of the three; `sent` are frames of a socket, `stream` the bytes on a port."""
    way = rng.choice((TWILIO, TWILIO, VAPI, AUDIOSOCKET))
    if way == AUDIOSOCKET:
        return way, {"path": way, "stream": _frames(rng)}
    if way == VAPI:
        return way, {"path": way, "query": _query(rng), "sent": _vapi(rng)}
    return way, {"path": way, "query": "", "sent": _twilio(rng)}


def _twilio(rng: random.Random) -> list[tuple[int, bytes]]:
    messages = [_TWILIO_OTHERS[0], _TWILIO_START]
    messages += [_media(rng) for _ in range(rng.randrange(4))]
    messages += rng.sample(_TWILIO_OTHERS, rng.randrange(3))
    at = rng.randrange(len(messages))
    sent = [
        (1, json_bytes(rng, bent(rng, one)) if n == at else _json(one))
        for n, one in enumerate(messages)
    ]
    if chance(rng, 0.1):
        rng.shuffle(sent)
    if chance(rng, 0.1):
        sent.insert(rng.randrange(len(sent) + 1), (2, rubbish(rng, 200)))
    return sent


def _json(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def _media(rng: random.Random) -> dict[str, Any]:
    payload = base64.b64encode(rubbish(rng, 320)).decode()
    return {"event": "media", "media": {"track": "inbound", "payload": payload, "chunk": "1"}}


def _vapi(rng: random.Random) -> list[tuple[int, bytes]]:
    start = json_bytes(rng, bent(rng, _VAPI_START)) if chance(rng, 0.6) else None
    sent = [(1, start or _json(_VAPI_START))]
    sent += [(2, rubbish(rng, 1_601)) for _ in range(rng.randrange(4))]
    if chance(rng, 0.2):
        sent.append((1, json_bytes(rng, bent(rng, _VAPI_START))))
    if chance(rng, 0.1):
        rng.shuffle(sent)
    return sent


def _query(rng: random.Random) -> str:
    names = rng.sample(sorted(_VAPI_OPTIONS), rng.randrange(len(_VAPI_OPTIONS)))
    pairs = [(name, _VAPI_OPTIONS[name]) for name in names]
    if chance(rng, 0.3):
        pairs.append((rng.choice((*_VAPI_OPTIONS, text(rng)[:300])), text(rng)[:3_000]))
    return "&".join(f"{quote(name, safe='')}={quote(given, safe='')}" for name, given in pairs)


def _frames(rng: random.Random) -> bytes:
    whole = _frame(0x01, rng.randbytes(16)) if chance(rng, 0.8) else b""
    whole += b"".join(
        _frame(rng.choice(_FRAME_KINDS), rubbish(rng, 320)) for _ in range(rng.randrange(6))
    )
    return mutated(rng, whole) if chance(rng, 0.6) else whole


def _frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind]) + len(payload).to_bytes(2, "big") + payload
