"""A processor refuses a resume point with which it could not continue."""

import msgspec
import pytest

from auricle.protocol.sessions import OpenSession, ResumePoint

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("position", ["segment", "segment_start", "committed_before"])
def test_a_negative_position_is_malformed(position: str) -> None:
    resume = msgspec.to_builtins(ResumePoint(), builtin_types=(bytes,))
    opened = {"session": "s", "tenant": "t", "language": None, "context": "", "chunk_ms": 640}
    data = msgspec.msgpack.encode({**opened, "type": "OpenSession", "resume": resume})
    msgspec.msgpack.decode(data, type=OpenSession)
    resume[position] = -1
    data = msgspec.msgpack.encode({**opened, "type": "OpenSession", "resume": resume})
    with pytest.raises(msgspec.ValidationError, match="no negative positions"):
        msgspec.msgpack.decode(data, type=OpenSession)
