"""A file system for the graph alone, small enough to fill, and functions that fill and free it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_BYTES = 256 * 2**20
_FILLER = "filler"
_DETACH = 2  # MNT_DETACH of umount2(2)


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Yield a folder, and remove it afterwards; it is a separate file system if this user may mount
    one.

    Its path is short, because the path of a Unix socket has at most 107 bytes.
    """
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        if not mountable():
            yield Path(name)
            return
        _called("mount", b"tmpfs", os.fsencode(name), b"tmpfs", 0, f"size={_BYTES}".encode())
        try:
            yield Path(name)
        finally:
            _called("umount2", os.fsencode(name), _DETACH)


def mountable() -> bool:
    """Whether this user may mount a file system."""
    return os.geteuid() == 0


def fill(folder: Path) -> int:
    """Write until the folder's file system is full; return how many bytes fitted.

    Raises OSError if the folder is not a mount point, so that no other file system is filled.
    """
    if not folder.is_mount():
        raise OSError(f"{folder} must be a separate file system")
    block, written = bytes(2**20), 0
    with (folder / _FILLER).open("wb", buffering=0) as file:
        while len(block) > 0:
            try:
                written += file.write(block)
            except OSError:
                block = block[: len(block) // 2]
    return written


def free(folder: Path) -> None:
    """Undo `fill`."""
    (folder / _FILLER).unlink(missing_ok=True)


def _called(name: str, *arguments: bytes | int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
