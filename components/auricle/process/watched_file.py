"""A file that is read again when it has changed."""

from __future__ import annotations

from pathlib import Path

# How often a file is looked at.
CHECK_SECONDS = 0.5


class WatchedFile:
    """Create it before the file is first read, to miss no change. It blocks."""

    def __init__(self, path: Path, *, settled: bool = False) -> None:
        """With `settled` a change counts once two consecutive checks see the same file.

        This is for files that are written in place, if half of such a file could be valid, too.
        """
        self.path = path
        self._settled = settled
        self._taken = self._last = _stamp(path)

    def changed(self) -> bool:
        """Return whether the file has changed since this last returned true."""
        seen, before = _stamp(self.path), self._last
        self._last = seen
        if seen == self._taken or (self._settled and seen != before):
            return False
        self._taken = seen
        return True


def _stamp(path: Path) -> tuple[int, int, int, int] | None:
    """Return device, inode, time and size; None while the file is absent.

    An atomic replacement and Kubernetes' exchange of a symbolic link give another inode.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
