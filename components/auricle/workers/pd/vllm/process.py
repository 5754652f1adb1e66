"""Processes of vLLM: captured failures, and environment variables."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from auricle.process.device_faults import end_if_sticky, first_sentence

# vLLM reports only that its engine has failed or ended. It logs the reason in the engine's process,
# where a handler writes it to a file.

_FILE = "AURICLE_ENGINE_LAST_WORDS"
_LOGGER = "vllm.v1.engine.core"


@contextmanager
def failure_file() -> Iterator[Path]:
    """Yield the file to which an engine started in this block writes the reason of its failure."""
    with tempfile.TemporaryDirectory(prefix="auricle-engine-") as folder:
        file = Path(folder) / "last-words"
        os.environ[_FILE] = str(file)
        try:
            yield file
        finally:
            os.environ.pop(_FILE, None)


def read_failure(file: Path) -> str | None:
    """Return the reason of an engine's failure; None without one."""
    return file.read_text() if file.is_file() else None


def capture_failures() -> None:
    """Write vLLM's errors in this process, the engine's, to the failure file."""
    logger = logging.getLogger(_LOGGER)
    if not any(isinstance(handler, _FailureHandler) for handler in logger.handlers):
        logger.addHandler(_FailureHandler(os.environ.get(_FILE)))


class _FailureHandler(logging.Handler):
    """Writes the last error of an engine; ends the process at once if its device is broken.

    vLLM's cleanup would wait for the device.
    """

    def __init__(self, file: str | None) -> None:
        super().__init__(logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        if self._file is not None:
            with suppress(OSError):  # removed after the start
                Path(self._file).write_text(first_sentence(error))
        end_if_sticky(error, "vLLM's engine")


_LOG_LEVEL = "AURICLE_ENGINE_LOG_LEVEL"


def pass_on_log_level() -> None:
    """Have processes of vLLM log what this process logs of auricle."""
    level = logging.getLogger("auricle").getEffectiveLevel()
    os.environ[_LOG_LEVEL] = logging.getLevelName(level)


def show_own_log() -> None:
    """Log auricle's lines in this process, the engine's, where vLLM configures only its own."""
    own = logging.getLogger("auricle")
    if not own.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        own.addHandler(handler)
        own.setLevel(os.environ.get(_LOG_LEVEL, "WARNING"))


# Environment variables that vLLM reads on import and in the processes it starts.

_DEFAULTS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "auricle",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # On a GPU vLLM would fork its engine from this process, whose threads (NIXL's) hold locks, and
    # would not call our plug-in, which ends the engine with this process.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # FlashInfer's sampling kernels require CUDA's compiler at start. We only use the likeliest
    # token.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}


def set_defaults() -> None:
    """Set the variables that the user has not set, and the level of what vLLM logs on import."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    # vLLM itself applies it only at the start of an engine.
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])
    # Warns that there is no Triton, which vLLM does not need on a CPU.
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
