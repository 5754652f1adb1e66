"""Messages of Vapi's transcriber."""

from __future__ import annotations

import json
from typing import Any


def start(**other: Any) -> str:
    usual = {"encoding": "linear16", "container": "raw", "sampleRate": 16_000, "channels": 2}
    return json.dumps({"type": "start"} | usual | other)
