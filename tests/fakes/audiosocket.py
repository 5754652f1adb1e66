"""Frames of AudioSocket."""

from __future__ import annotations

from uuid import UUID

CALL = UUID("40325ec2-5efd-4bd3-805f-53576e581d13")


def frame(kind: int, payload: bytes = b"") -> bytes:
    return bytes([kind]) + len(payload).to_bytes(2, "big") + payload


BEGUN = frame(0x01, CALL.bytes)
