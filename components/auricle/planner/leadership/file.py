"""The lease where discovery is a directory of this machine: a lock on a file in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


class FileLease:
    """A file lock, which the kernel releases when its holder dies."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "planner.lock"
        self._file: IO[str] | None = None

    async def renewed(self) -> bool:
        """Acquire the lock if it is free. Does not block."""
        if self._file is not None:
            return True
        file = self._path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        if not self._is_there(file):  # its holder removed the file before we had the lock
            file.close()
            return False
        self._file = file
        return True

    async def release(self) -> None:
        """Remove the file and release the lock."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _is_there(self, file: IO[str]) -> bool:
        try:
            return self._path.stat().st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return False
