"""The frames of a connection between two processes of one machine. No I/O.

A frame is the length of what follows (u32), its kind (u8), the number of its call (u32), and its
content; integers are big-endian. The caller numbers its calls.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from auricle.process.metrics import ComponentMetrics

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">BI")
_WHOLE_HEAD = struct.Struct(">IBI")
MOST_BYTES = 64 * 2**20  # of a frame: as much as the request plane takes
# Replies that one side may have sent and the other not have taken yet. The reader reports them
# `REPORTED` at a time.
AHEAD = 32
REPORTED = 16


class Kind(IntEnum):
    """The kind of a frame. Caller: CALL (content: `Begin`), TAKEN, STOP. Other side: REPLY, END."""

    CALL = 1
    TAKEN = 2  # the caller has taken `REPORTED` more replies
    STOP = 3  # the caller cancels the call
    REPLY = 4
    END = 5  # after the last reply


class Frame(NamedTuple):
    """One frame."""

    kind: int
    call: int
    content: bytes


class BadFrame(Exception):
    """The received bytes are not a valid frame; the connection must be closed."""


def packed(kind: Kind, call: int, *content: bytes) -> bytes:
    """Return a frame as bytes. Raises ValueError above `MOST_BYTES`."""
    length = _HEAD.size + sum(map(len, content))
    if length > MOST_BYTES:
        raise ValueError(f"a frame of {length} bytes; at most {MOST_BYTES} fit")
    return b"".join((_WHOLE_HEAD.pack(length, kind, call), *content))


def begun(content: bytes) -> tuple[str, bytes]:
    """Return the endpoint and the sealed request of a CALL, whose content is both, NUL between."""
    endpoint, _, sealed = content.partition(b"\0")
    return endpoint.decode("ascii", "replace"), sealed


class FrameReader:
    """Takes bytes as they arrive, and returns the frames that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> list[Frame]:
        """Return the frames that `received` completes. Raises BadFrame if one is too long."""
        self._buffer += received
        frames: list[Frame] = []
        at = 0
        with memoryview(self._buffer) as view:
            while len(view) - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(view, at)
                if not _HEAD.size <= length <= MOST_BYTES:
                    raise BadFrame(f"a frame of {length} bytes")
                end = at + _LENGTH.size + length
                if end > len(view):
                    break
                kind, call = _HEAD.unpack_from(view, at + _LENGTH.size)
                content = bytes(view[at + _WHOLE_HEAD.size : end])
                frames.append(Frame(kind, call, content))
                at = end
        del self._buffer[:at]
        return frames


# Where the processes of a machine listen for each other's calls.

_BACKLOG = 128


def socket_path(directory: Path, instance: int) -> Path:
    """Return where the process that has this instance's id listens."""
    return directory / f"{instance:016x}"


def check_private(directory: Path) -> None:
    """Raise OSError unless the directory is there and only this process's user may enter it.

    A process that can put a socket there receives the calls to it.
    """
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} is not a directory that its user alone may enter")


def listening(path: Path) -> socket.socket:
    """Return a socket that listens at `path`; remove those that dead processes have left.

    Raises OSError if there cannot be one.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(path.parent)
    for other in path.parent.iterdir():
        if not other.suffix and _dead(other):
            other.unlink(missing_ok=True)
    # It gets its name once it listens: other processes remove sockets that do not listen.
    draft = path.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(draft))
        draft.chmod(0o600)
        listener.listen(_BACKLOG)
        draft.rename(path)
    except OSError:
        listener.close()
        draft.unlink(missing_ok=True)
        raise
    listener.setblocking(False)
    return listener


def _dead(path: Path) -> bool:
    """Whether the socket at `path` has no process any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # it is busy, or has just gone
            return False
        return False


class LocalMetrics:
    """Calls and connections from other processes of the machine."""

    def __init__(self, registry: CollectorRegistry) -> None:
        metrics = ComponentMetrics(registry, "internal")
        self.calls = metrics.counter("local_calls", "calls from processes of this machine")
        self.in_flight = metrics.gauge("local_calls_in_flight", "of them, not answered yet")
        self.connections = metrics.gauge("local_connections", "processes that are connected")
