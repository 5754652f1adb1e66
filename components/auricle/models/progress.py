"""How much of a download is on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from auricle.models.store import bytes_below

# Called with bytes so far and bytes in all, from another thread too.
Report = Callable[[int, int], None]
_INTERVAL_SECONDS = 0.2


@contextmanager
def reporting(folder: Path, total: int, report: Report) -> Iterator[None]:
    """Report what is below `folder` until the block ends; all of it if it ends well."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_INTERVAL_SECONDS):
            report(min(bytes_below(folder), total), total)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    report(total, total)
