"""Converts messages for the request plane, which encodes what it is given as msgpack.

Requests cross sealed (see `seals.py`), as one value; replies cross as plain containers.
"""

from __future__ import annotations

from typing import Any

import msgspec

_ENCODER = msgspec.msgpack.Encoder()
_SEALED = "sealed"


def encoded(message: msgspec.Struct) -> bytes:
    """Return the message as msgpack, to be sealed."""
    return _ENCODER.encode(message)


def sealed_to_wire(sealed: bytes) -> dict[str, Any]:
    """Return what the request plane carries of a sealed request."""
    return {_SEALED: sealed}


def sealed_from_wire(data: Any) -> bytes:
    """Return the sealed request; empty, and so refused by `Opener`, if it is of another form."""
    sealed = data.get(_SEALED) if isinstance(data, dict) else None
    return sealed if isinstance(sealed, bytes) else b""


def to_wire(message: msgspec.Struct) -> dict[str, Any]:
    """Convert a message to plain containers; bytes stay bytes."""
    plain: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    return plain


def from_wire(data: Any, kind: Any) -> Any:
    """Convert plain containers to a message of type `kind`.

    Raises msgspec.ValidationError, which names the field.
    """
    return msgspec.convert(data, kind, strict=True, builtin_types=(bytes,))
