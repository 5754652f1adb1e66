"""Converts messages for the request plane, which encodes its payload as msgpack.

Requests (signed, see `signing.py`) and replies (unsigned) cross as one value of bytes. Within one
machine only the bytes cross (see `local/`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

_ENCODER = msgspec.msgpack.Encoder()
_SEALED, _PACKED = "sealed", "packed"


def encoded(message: msgspec.Struct) -> bytes:
    """Return the message as msgpack, to be sealed."""
    return _ENCODER.encode(message)


def sealed_to_wire(sealed: bytes) -> dict[str, Any]:
    """Return the payload of a signed request."""
    return {_SEALED: sealed}


def sealed_from_wire(data: Any) -> bytes:
    """Return the sealed request; empty, and so refused by `Verifier`, if it is of another form."""
    sealed = data.get(_SEALED) if isinstance(data, dict) else None
    return sealed if isinstance(sealed, bytes) else b""


def to_wire(message: msgspec.Struct) -> dict[str, Any]:
    """Return the payload of a reply: bytes, which the request plane does not parse."""
    return {_PACKED: _ENCODER.encode(message)}


def packed_from_wire(reply: dict[str, Any]) -> bytes:
    """Return the bytes of what `to_wire` returned."""
    found: bytes = reply[_PACKED]
    return found


def packed_to_wire(packed: bytes) -> dict[str, Any]:
    """Return what `to_wire` returned, from its bytes."""
    return {_PACKED: packed}


def from_wire(data: Any, kind: Any) -> Any:
    """Decode a reply of type `kind`. Raises msgspec.ValidationError, which names the field."""
    packed = data.get(_PACKED) if isinstance(data, dict) else None
    if not isinstance(packed, bytes):
        raise msgspec.ValidationError("the reply is of another form")
    try:
        return _decoder(kind).decode(packed)
    except msgspec.DecodeError as error:
        raise msgspec.ValidationError(str(error)) from None


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)
