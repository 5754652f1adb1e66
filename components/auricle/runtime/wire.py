"""Messages as they cross the request plane, which is msgpack."""

from __future__ import annotations

from typing import Any

import msgspec


def to_wire(message: msgspec.Struct) -> dict[str, Any]:
    """Plain containers; bytes stay bytes."""
    plain: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    return plain


def from_wire(data: Any, kind: Any) -> Any:
    """Typed message from plain containers; raises msgspec.ValidationError naming the field."""
    return msgspec.convert(data, kind, strict=True, builtin_types=(bytes,))
