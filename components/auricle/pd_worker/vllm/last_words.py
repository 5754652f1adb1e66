"""What vLLM's engine failed with, in its own process.

The process that starts an engine learns that it has failed and not why, and one that runs it
learns that it has ended. vLLM logs the error in the engine's process, wherever it came from:
loading, the KV cache's size, CUDA graphs, a pass. There it is heard.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from auricle.process.device_faults import end_if_sticky, first_sentence

_FILE = "AURICLE_ENGINE_LAST_WORDS"
_LOGGER = "vllm.v1.engine.core"


@contextmanager
def last_words() -> Iterator[Path]:
    """Yield the file to which an engine that is started in this block writes why it cannot."""
    with tempfile.TemporaryDirectory(prefix="auricle-engine-") as folder:
        file = Path(folder) / "last-words"
        os.environ[_FILE] = str(file)
        try:
            yield file
        finally:
            os.environ.pop(_FILE, None)


def said(file: Path) -> str | None:
    """Return what an engine wrote; None if it has not."""
    return file.read_text() if file.is_file() else None


def listen() -> None:
    """Hear vLLM's errors in this process, which is to run its engine."""
    logger = logging.getLogger(_LOGGER)
    if not any(isinstance(handler, _LastWords) for handler in logger.handlers):
        logger.addHandler(_LastWords(os.environ.get(_FILE)))


class _LastWords(logging.Handler):
    """Writes the error that an engine ends with, or ends its process at once.

    vLLM tidies up after an error, on a device that may no longer answer.
    """

    def __init__(self, file: str | None) -> None:
        super().__init__(logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        if self._file is not None:
            with suppress(OSError):  # an engine that ran has outlived its file
                Path(self._file).write_text(first_sentence(error))
        end_if_sticky(error, "vLLM's engine")
