"""inotify instances: Dynamo's file discovery takes one for each endpoint that it follows.

Linux grants a user `fs.inotify.max_user_instances` of them. When they are used up, system calls
fail with "Too many open files", as for file descriptors.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

from auricle.core.errors import SettingsError

_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
# Measured: a frontend takes 14 to 20, a processor 6, workers 2: up to 30 for the five of a graph.
INSTANCES_PER_PROCESS = 6
_AT_ONCE = 2  # Dynamo takes two to follow an endpoint, and gives one back
_TOO_MANY = "Too many open files"


def check_instances(processes: int) -> None:
    """Raise SettingsError if this user has too few left for this number of processes."""
    wanted = processes * INSTANCES_PER_PROCESS
    if (free := _free(wanted)) < wanted:
        raise SettingsError(_used_up(f"{free} of them are free, and about {wanted} are needed"))


def explained(error: Exception) -> Exception:
    """Return an error of Dynamo's discovery, or one that names the exceeded limit."""
    if _TOO_MANY in str(error) and _free(_AT_ONCE) < _AT_ONCE:
        return SettingsError(_used_up("and all are in use"))
    return error


def _used_up(how: str) -> str:
    return (
        f"discovery needs inotify instances: fs.inotify.max_user_instances is {_limit()}, {how}; "
        "raise it: sysctl -w fs.inotify.max_user_instances=1024 (in /etc/sysctl.d to keep it)"
    )


def _limit() -> str:
    try:
        return _LIMIT.read_text().strip()
    except OSError:
        return "too low"


def _free(wanted: int) -> int:
    """Return how many instances can be made, at most `wanted`; all are closed again at once."""
    made: list[int] = []
    try:
        while len(made) < wanted:
            made.append(_make())
    except OSError as error:
        # A process that is out of descriptors gets the same error.
        if error.errno != errno.EMFILE or not _has_descriptors():
            return wanted
    finally:
        for descriptor in made:
            os.close(descriptor)
    return len(made)


def _make() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_CLOEXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    return descriptor


def _has_descriptors() -> bool:
    with suppress(OSError):
        os.close(os.open(os.devnull, os.O_RDONLY))
        return True
    return False
