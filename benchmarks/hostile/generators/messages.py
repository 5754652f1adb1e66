"""JSON of the streaming and the realtime protocol: of the right shape and of the wrong one."""

from __future__ import annotations

import base64
import random
from typing import Any

from benchmarks.hostile.generators.values import bent, chance, json_bytes, rubbish, value

START: dict[str, Any] = {
    "type": "start",
    "sample_rate": 16_000,
    "encoding": "pcm_s16le",
    "feature_dtype": "float32",
    "language": "English",
    "languages": [],
    "context": "Ada, Grace",
    "chunk_ms": 640,
    "partials": True,
    "endpointing": {
        "enabled": True,
        "threshold": 0.5,
        "min_silence_ms": 500,
        "pre_roll_ms": 300,
    },
}
END: dict[str, Any] = {"type": "end"}
_TRANSCRIPTION: dict[str, Any] = {
    "model": "demo",
    "language": "en",
    "languages": ["en"],
    "prompt": "names: Ada",
    "keywords": ["Ada", "Grace"],
    "delay": "low",
    "chunk_ms": 320,
}
_INPUT: dict[str, Any] = {
    "format": {"type": "audio/pcm", "rate": 24_000},
    "transcription": _TRANSCRIPTION,
    "turn_detection": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 400,
        "create_response": True,
        "idle_timeout_ms": 5_000,
    },
    "noise_reduction": {"type": "near_field", "strength": 1.0},
}
EVENTS: tuple[dict[str, Any], ...] = (
    {
        "type": "session.update",
        "event_id": "e1",
        "session": {"type": "transcription", "audio": {"input": _INPUT}, "include": []},
    },
    {"type": "input_audio_buffer.append", "event_id": "e2", "audio": ""},
    {"type": "input_audio_buffer.commit", "event_id": "e3"},
    {"type": "input_audio_buffer.clear", "event_id": "e4"},
)
TYPES = ("start", "end", "ready", "done", "error", "session.update", "response.create", "", "é")


def start(rng: random.Random) -> tuple[str, list[bytes]]:
    """Messages of one streaming session, the first of which is usually a bent start."""
    kind, first = "start", json_bytes(rng, _start(rng))
    if chance(rng, 0.05):
        kind, first = "any JSON", json_bytes(rng, value(rng))
    messages = [first]
    if chance(rng, 0.3):
        kind = "sequence"
        more = (END, START, bent(rng, END), {"type": rng.choice(TYPES)}, value(rng))
        messages += [json_bytes(rng, rng.choice(more)) for _ in range(rng.randrange(1, 4))]
    return kind, messages


def _start(rng: random.Random) -> dict[str, Any]:
    return bent(rng, START if chance(rng, 0.7) else {"type": "start", "sample_rate": 16_000})


def event(rng: random.Random) -> tuple[str, bytes]:
    """One client event of a realtime session."""
    what = rng.randrange(10)
    if what == 0:
        return "any JSON", json_bytes(rng, value(rng))
    if what == 1:
        return "type", json_bytes(rng, {"type": rng.choice(TYPES), "event_id": value(rng, 0)})
    good = rng.choice(EVENTS)
    if good["type"].endswith("append"):
        audio = base64.b64encode(rubbish(rng, 400)).decode()
        if chance(rng, 0.5):
            audio = audio[: rng.randrange(len(audio) + 1)] + rng.choice(("", "=", "*", "\n", "é"))
        good = {**good, "audio": audio}
    if chance(rng, 0.2):
        return "good", json_bytes(rng, good)
    return "bent", json_bytes(rng, bent(rng, good))
