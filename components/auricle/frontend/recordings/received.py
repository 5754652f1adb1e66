"""A recording that came in one message: what was asked for, and its audio on disk.

The file is anonymous, as uploads are: nothing is left behind if this process dies. The decoding
process opens it through /proc.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from auricle.frontend.recordings.storage import storing
from auricle.frontend.recordings.transcriber import Segment


@dataclass(frozen=True)
class Received:
    """A recording of `size` bytes; `warnings` are sentences on what has no effect.

    `answer` makes the call's answer of the segments with text. With `grid_words` they have those,
    with `words` the aligner's as well, where there is one. Without `silence_ms` the server's
    endpointing applies.
    """

    file: IO[bytes]
    size: int
    answer: Callable[[Sequence[Segment]], bytes]
    model: str | None = None
    language: str | None = None
    context: str = ""
    silence_ms: int | None = None
    warnings: tuple[str, ...] = ()
    grid_words: bool = False
    words: bool = False

    @property
    def path(self) -> Path:
        """Where another process can open it, until `close`."""
        return Path(f"/proc/{os.getpid()}/fd/{self.file.fileno()}")

    def close(self) -> None:
        """Free the file."""
        self.file.close()


# Takes a call's message. It raises BadRequest, naming what is wrong, and StorageFull.
Receive = Callable[[bytes], Received]


def stored(*parts: bytes) -> IO[bytes]:
    """Return a file of these parts. Raises StorageFull and Overloaded."""
    with storing():
        file: IO[bytes] = TemporaryFile()  # noqa: SIM115  # `Received.close` closes it
        for part in parts:
            file.write(part)
        file.flush()
    return file
