"""Logs: text for people, JSON for machines; with the session and request they are about.

No transcript is ever logged unless `log_transcripts` asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from auricle.settings import CommonSettings

_TEXT = "%(levelname)s %(name)s: %(message)s"
_ABOUT: ContextVar[dict[str, str] | None] = ContextVar("auricle_log_about", default=None)
_NOISY = ("httpx", "dynamo", "filelock", "urllib3", "numba", "nixl", "opentelemetry", "nats")


def configure_logging(component: str, settings: CommonSettings) -> None:
    """Of this process; everything goes to standard error."""
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
    else:
        handler.setFormatter(logging.Formatter(_TEXT))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


@contextmanager
def about(**ids: str | None) -> Iterator[None]:
    """Everything logged in the block, and in tasks started there, says these ids too."""
    token = _ABOUT.set((_ABOUT.get() or {}) | {name: v for name, v in ids.items() if v})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def _add_what_it_is_about(record: logging.LogRecord) -> bool:
    for name, value in (_ABOUT.get() or {}).items():
        setattr(record, name, value)
    return True
