"""What the disk says while an upload is written, in words for its client."""

from __future__ import annotations

import errno
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from auricle.errors import Overloaded, StorageFull

log = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


@contextmanager
def storing() -> Iterator[None]:
    """Raise StorageFull if the block cannot write its file, and Overloaded if it cannot open it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            log.error("no room for uploads in %s: %s", tempfile.gettempdir(), error.strerror)
            raise StorageFull("the server has no room for the upload; try again later") from None
        if error.errno in _NO_DESCRIPTOR:
            log.error("no upload can be stored: %s", error.strerror)
            raise Overloaded("the server has too many files open; try again") from None
        raise
