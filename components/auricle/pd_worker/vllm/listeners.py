"""Closes vLLM's processes to connections that nobody makes after their start.

PyTorch's process groups listen even where there is one process (gloo). They accept whoever
connects, keep every connection for good, and end the process when it has no descriptors left.
Their sockets cannot be closed behind gloo's back. A filter that drops every packet leaves the
socket as it is, and keeps newcomers out; connections that exist have sockets of their own. Some
kernels let only root attach one: there the ports stay open, and it is said which.
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)
_SO_ATTACH_FILTER = 26  # asm-generic/socket.h
_SO_ACCEPTCONN = 30
_BPF_RET = 0x06  # linux/bpf_common.h; with the operand 0 it drops the packet


def refuse_connections() -> int:
    """Keep newcomers from this process's listening TCP sockets; returns of how many.

    To those who connect it looks as if nobody answered. Call it once all peers are connected.
    """
    program = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RET, 0, 0, 0))
    drop_all = struct.pack("@HP", 1, ctypes.addressof(program))
    count, left = 0, []
    for listener in _listeners():
        with listener:
            try:
                listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, drop_all)
                count += 1
            except PermissionError:
                host, port, *_ = listener.getsockname()
                left.append(f"{host}:{port}")
    if left:
        log.warning(
            "this kernel lets only root close ports to newcomers, so those of vLLM's engine stay "
            "open: %s; let nobody else reach them (deploy/k8s has a network policy)",
            ", ".join(left),
        )
    return count


def _listeners() -> Iterator[socket.socket]:
    """Yield a duplicate of each listening TCP socket of this process."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing is gone by now
            if stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                found = socket.socket(fileno=os.dup(int(entry.name)))
                if _listens(found):
                    yield found
                else:
                    found.close()


def _listens(found: socket.socket) -> bool:
    return found.family in (socket.AF_INET, socket.AF_INET6) and bool(
        found.getsockopt(socket.SOL_SOCKET, _SO_ACCEPTCONN)
    )
