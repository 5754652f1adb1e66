"""Events of Wyoming: headers that lie, data that is bent, payloads of any size."""

from __future__ import annotations

import json
import random
from typing import Any

from benchmarks.hostile.generators.values import bent, chance, json_bytes, rubbish

_AUDIO = {"rate": 16_000, "width": 2, "channels": 1, "timestamp": 0}
_EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("describe", {}),
    ("ping", {"text": "there?"}),
    ("transcribe", {"name": "demo", "language": "en", "transcript_names": ["Ada"]}),
    *(("audio-start", _AUDIO), ("audio-chunk", _AUDIO), ("audio-chunk", _AUDIO)),
    ("audio-stop", {"timestamp": 0}),
    ("run-pipeline", {"start_stage": "asr"}),
)


def events(rng: random.Random) -> tuple[str, bytes]:
    """What a client sends on one connection: an utterance, with one event of it bent."""
    chosen = [one for one in _EVENTS if chance(rng, 0.7)] or [_EVENTS[0]]
    at = rng.randrange(len(chosen))
    kind = chosen[at][0]
    sent = [_event(rng, *one, wrong=n == at) for n, one in enumerate(chosen)]
    return kind, b"".join(sent)


def _event(rng: random.Random, kind: str, data: dict[str, Any], *, wrong: bool) -> bytes:
    payload = rubbish(rng, 640) if kind == "audio-chunk" else b""
    body = json_bytes(rng, bent(rng, data)) if wrong else json.dumps(data).encode()
    header: dict[str, Any] = {"type": kind, "data_length": len(body), "version": "1"}
    if payload:
        header["payload_length"] = len(payload)
    if wrong and chance(rng, 0.4):
        return json_bytes(rng, bent(rng, header)) + b"\n" + body + payload
    return json.dumps(header).encode() + b"\n" + body + payload
