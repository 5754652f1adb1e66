"""A process that a component starts for an engine: it ends with the component, behind closed ports.

PyTorch's process groups (gloo) listen even with a single process. They accept any connection, keep
it open, and end the process when it runs out of descriptors. gloo's sockets cannot be closed, so a
filter drops every packet to the listening socket; established connections have their own sockets.
On some kernels only root may attach a filter; there the ports stay open and a warning lists them.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h
_SO_ACCEPTCONN = 30
_BPF_RET = 0x06  # linux/bpf_common.h; with the operand 0 it drops the packet


def end_with_parent() -> bool:
    """Kill this process when the one that started it dies, whatever it does then.

    Returns False, and does nothing, in a process that `multiprocessing` has not started.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return False

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()
    return True


def lock_down_ports() -> int:
    """Drop new connections to this process's listening TCP sockets; returns their number.

    Connection attempts time out. Call it once all peers are connected.
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
            "The ports of this engine stay open: %s; this kernel lets only root close them. "
            "Restrict access to them (deploy/k8s has a network policy)",
            ", ".join(left),
        )
    return count


def _listeners() -> Iterator[socket.socket]:
    """Yield a duplicate of each listening TCP socket of this process."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing is closed
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
