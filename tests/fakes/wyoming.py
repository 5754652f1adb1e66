"""Events of Wyoming as a client sends them."""

from __future__ import annotations

import json
from typing import Any


def sent(kind: str, data: dict[str, Any], payload: bytes = b"", *, inline: bool = False) -> bytes:
    body = b"" if inline else json.dumps(data).encode()
    header: dict[str, Any] = {"type": kind, "version": "1.10.2", "data_length": len(body)}
    header |= {"payload_length": len(payload)} | ({"data": data} if inline else {})
    return json.dumps(header).encode() + b"\n" + body + payload
