"""Where the processes of a machine listen for each other's calls."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

_BACKLOG = 128


def socket_path(directory: Path, instance: int) -> Path:
    """Return where the process that has this instance's id listens."""
    return directory / f"{instance:016x}"


def check_private(directory: Path) -> None:
    """Raise OSError unless the directory is there and only this process's user may enter it.

    Whoever can put a socket there hears what is sent to it.
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
    # It gets its name once it listens: others take one that does not for a dead process's.
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
