"""Messages of Twilio's media streams."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

CALL, STREAM = "CA" + "1" * 32, "MZ" + "2" * 32
CONNECTED = json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"})


def start(*tracks: str, parameters: Mapping[str, str] | None = None, **other: Any) -> str:
    """The start message from Twilio's documentation of its WebSocket messages."""
    audio = {"encoding": "audio/x-mulaw", "sampleRate": 8_000, "channels": 1}
    fields = {
        "accountSid": "AC" + "3" * 32,
        "streamSid": STREAM,
        "callSid": CALL,
        "tracks": list(tracks or ("inbound",)),
        "mediaFormat": audio,
        "customParameters": dict(parameters or {}),
    }
    message = {"event": "start", "sequenceNumber": "1", "start": fields | other}
    return json.dumps(message | {"streamSid": STREAM})


def media(payload: bytes, track: str = "inbound") -> str:
    fields = {"track": track, "chunk": "1", "timestamp": "5"}
    fields["payload"] = base64.b64encode(payload).decode()
    return json.dumps(
        {"event": "media", "sequenceNumber": "3", "media": fields, "streamSid": STREAM}
    )
