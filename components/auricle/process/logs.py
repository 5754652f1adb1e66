"""Logging as text or JSON, with the ids of the session and request that a line concerns.

No transcript is logged unless `log_transcripts` is set.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from auricle.process.repeats import Repeats
from auricle.quoting import one_line
from auricle.settings import CommonSettings

log = logging.getLogger(__name__)
_TEXT = "%(levelname)s %(name)s: %(message)s"
_ABOUT: ContextVar[dict[str, str] | None] = ContextVar("auricle_log_about", default=None)
_NOISY = ("httpx", "dynamo", "filelock", "urllib3", "numba", "nixl", "opentelemetry", "nats")


def configure_logging(component: str, settings: CommonSettings) -> None:
    """Configure this process's logging; everything goes to standard error.

    Lines that repeat are counted and summed up: see `Repeats`.
    """
    handler = logging.StreamHandler()
    if settings.log_format == "json":
        from pythonjsonlogger.json import JsonFormatter

        handler.setFormatter(
            JsonFormatter(
                "%(levelname)s %(name)s %(message)s",
                rename_fields={"levelname": "level", "name": "logger"},
                static_fields={"component": component},
                timestamp="time",
            )
        )
        handler.addFilter(_add_what_it_is_about)
        logging.captureWarnings(True)  # they would be plain lines
        sys.excepthook = _log_uncaught
    else:
        handler.setFormatter(_OneLine(_TEXT))
    handler.addFilter(Repeats())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _OneLine(logging.Formatter):
    """Escapes what is not printable in a message: nothing that is quoted there makes lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = one_line(record.message)
        return super().formatMessage(record)


@contextmanager
def about(**ids: str | None) -> Iterator[None]:
    """Add these ids to everything logged in the block and in tasks started there."""
    token = _ABOUT.set((_ABOUT.get() or {}) | {name: v for name, v in ids.items() if v})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What ends the process, as one object instead of a traceback's many lines."""
    log.critical("ended by %s: %s", kind.__name__, error, exc_info=(kind, error, trace))


def _add_what_it_is_about(record: logging.LogRecord) -> bool:
    for name, value in (_ABOUT.get() or {}).items():
        setattr(record, name, value)
    return True
