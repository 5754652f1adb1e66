"""Thousands of bent messages against the parsers of telephones and homes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from auricle.errors import AuricleError, BadRequest
from auricle.frontend.audiosocket.frames import FrameParser
from auricle.frontend.twilio.messages import Call, Start, parse_message
from auricle.frontend.vapi.messages import parse_start
from auricle.frontend.wyoming.events import AudioFormat, EventParser, Ping, Transcribe
from benchmarks.hostile.case import leak
from benchmarks.hostile.generators.values import bent, chance, json_bytes, mutated, rubbish

pytestmark = pytest.mark.unit
CASES = 1_500
AUDIO = {"rate": 16_000, "width": 2, "channels": 1, "timestamp": 0}
EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("transcribe", {"name": "demo", "language": "en", "transcript_names": ["Ada"]}),
    *(("audio-start", AUDIO), ("audio-chunk", AUDIO), ("audio-stop", {"timestamp": 0})),
    *(("ping", {"text": "there?"}), ("describe", {})),
)
READ_AS: dict[str, type[Any]] = {
    "transcribe": Transcribe,
    "audio-start": AudioFormat,
    "audio-chunk": AudioFormat,
    "ping": Ping,
}
KEY = "key"
TWILIO: tuple[dict[str, Any], ...] = (
    {
        "event": "start",
        "start": {
            "streamSid": "MZ1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8_000, "channels": 1},
            "customParameters": {"language": "en", "context": "Ada", "api_key": KEY},
        },
    },
    {"event": "media", "media": {"track": "inbound", "payload": "gICA", "chunk": "1"}},
    *({"event": "connected", "protocol": "Call"}, {"event": "stop"}, {"event": "mark"}),
)
VAPI = {
    "type": "start",
    "encoding": "linear16",
    "container": "raw",
    "sampleRate": 16_000,
    "channels": 2,
}


def read_wyoming(rng: random.Random) -> None:
    kind, data = rng.choice(EVENTS)
    body, payload = json_bytes(rng, bent(rng, data)), rubbish(rng, 64)
    header: dict[str, Any] = {"type": kind, "data_length": len(body), "version": "1"}
    header |= {"payload_length": len(payload)} if payload else {}
    if chance(rng, 0.3):
        header = bent(rng, header)
    parser = EventParser(1 << 20)
    parser.feed(json_bytes(rng, header) + b"\n" + body + payload)
    while (event := parser.next()) is not None:
        if event.kind in READ_AS:
            event.read_as(READ_AS[event.kind])


def read_audiosocket(rng: random.Random) -> None:
    kinds = (0x00, 0x01, 0x03, 0x10, 0x12, 0xFF)
    payloads = [rubbish(rng, 40) for _ in range(4)]
    sent = b"".join(bytes([rng.choice(kinds)]) + len(p).to_bytes(2, "big") + p for p in payloads)
    parser = FrameParser()
    parser.feed(mutated(rng, sent) if chance(rng, 0.7) else sent)
    while parser.next() is not None:
        pass


def text(data: bytes) -> str:
    """As a WebSocket delivers it."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRequest("not UTF-8") from None


def read_twilio(rng: random.Random) -> None:
    message = parse_message(text(json_bytes(rng, bent(rng, rng.choice(TWILIO)))))
    if isinstance(message, Start):
        Call.begun_by(message.start)


def read_vapi(rng: random.Random) -> None:
    parse_start(text(json_bytes(rng, bent(rng, VAPI))))


@pytest.mark.parametrize("read", [read_wyoming, read_audiosocket, read_twilio, read_vapi])
def test_no_message_meets_anything_but_an_error_of_ours(
    read: Callable[[random.Random], None],
) -> None:
    refused = []
    for number in range(CASES):
        try:
            read(random.Random(f"{read.__name__}:{number}"))
        except AuricleError as error:
            refused.append(error)
    # Neither is everything refused, nor nothing: then little would be tried.
    assert 0.05 * CASES < len(refused) < CASES
    shown = {str(error): leak(str(error).encode(errors="replace")) for error in refused}
    assert not {error[:200]: what for error, what in shown.items() if what}


def test_the_key_of_a_call_is_not_in_what_is_said_of_it() -> None:
    start = parse_message(json.dumps(TWILIO[0]))
    assert isinstance(start, Start)
    assert "key" not in repr(Call.begun_by(start.start))
