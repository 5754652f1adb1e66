"""The messages of our gRPC services, as protos/ defines them. Pure.

Classes are made of compiled descriptors, in a pool of their own: clients' packages register the
same names in the default one, and could then not be used in the same process.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from auricle.core.errors import ProtocolError

# A message's bytes without its audio, and its fields. Small messages inside it take many times
# their bytes as objects.
_MOST_BYTES = 64 * 1024
_MOST_FIELDS = 1_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@cache
def pool() -> DescriptorPool:
    """Return the descriptors of all files in protos/."""
    made = DescriptorPool()
    data = files("auricle.frontend.transport.grpc").joinpath("descriptors.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(data).file:
        made.Add(file)
    return made


@cache
def message(name: str) -> Any:
    """Return the class of the message with this full name."""
    return GetMessageClass(pool().FindMessageTypeByName(name))


def parsed(name: str, data: bytes, bulk: int | None = None) -> Any:
    """Parse a message. Raises ProtocolError if it is malformed, or too large without `bulk`."""
    short = name.rpartition(".")[2]
    _check_size(short, data, bulk)
    try:
        return message(name).FromString(data)
    except DecodeError:
        raise _malformed(short) from None


def _check_size(short: str, data: bytes, bulk: int | None) -> None:
    if len(data) <= _MOST_BYTES:
        return
    at = others = 0
    for _ in range(_MOST_FIELDS):
        if at == len(data):
            break
        field, end = _field(short, data, at)
        others += 0 if field == bulk else end - at
        at = end
    else:
        raise ProtocolError(f"a {short} has at most {_MOST_FIELDS} fields")
    if others > _MOST_BYTES:
        raise ProtocolError(f"a {short} has at most {_MOST_BYTES} bytes, not counting its audio")


def _field(short: str, data: bytes, at: int) -> tuple[int, int]:
    """Return the number of the field that begins at `at`, and where it ends."""
    tag, at = _varint(short, data, at)
    kind = tag & 7
    if kind == _VARINT:
        _, end = _varint(short, data, at)
    elif kind == _BYTES:
        length, at = _varint(short, data, at)
        end = at + length
    elif kind in (_FIXED64, _FIXED32):
        end = at + (8 if kind == _FIXED64 else 4)
    else:
        raise _malformed(short)
    if end > len(data):
        raise _malformed(short)
    return tag >> 3, end


def _varint(short: str, data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise _malformed(short)


def _malformed(short: str) -> ProtocolError:
    return ProtocolError(f"the message is not a valid {short}")
