"""Logging as text or JSON, with the ids of the session and request that a line concerns.

No transcript is logged unless `log_transcripts` is set.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

from auricle.config.settings import CommonSettings
from auricle.core.sanitize import one_line

log = logging.getLogger(__name__)

Kind = TypeVar("Kind")
PERIOD_SECONDS = 60.0
# Lines of one kind per period. Those that warn are rarer, and have tracebacks.
INFO_LINES, WARNING_LINES = 600, 20
# The first characters of a line, by which kinds are distinguished.
KIND_CHARACTERS = 200
OTHERS = "lines of other kinds"
_BOUND = "most_lines"
_MOST_KINDS = 500


@dataclass
class _Count:
    shown: int = 0
    held_back: int = 0


class RepeatCounts(Generic[Kind]):
    """Counts repeated lines by kind within a period, which begins with its first line."""

    def __init__(self) -> None:
        self._counts: dict[Kind, _Count] = {}

    def __len__(self) -> int:
        """Return the number of kinds in this period."""
        return len(self._counts)

    def bounded(self, kind: Kind, others: Kind) -> Kind:
        """Return the kind under which a line is counted: `others` if there are too many kinds."""
        return others if kind not in self._counts and len(self._counts) >= _MOST_KINDS else kind

    def shows(self, kind: Kind, most: int) -> bool:
        """Count a line; return whether it is among the first `most` of its kind."""
        count = self._counts.setdefault(kind, _Count())
        if count.shown < most:
            count.shown += 1
            return True
        count.held_back += 1
        return False

    def end(self) -> list[tuple[Kind, int]]:
        """End the period; return the numbers of lines held back, by kind."""
        counts, self._counts = self._counts, {}
        return [(kind, count.held_back) for kind, count in counts.items() if count.held_back]


def at_most(lines: int) -> dict[str, int]:
    """Return the `extra` of a log call that shows at most this number of lines per period."""
    return {_BOUND: lines}


def _later(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class Repeats(logging.Filter):
    """Lets the first lines of each kind pass in a period, then one line with the number of others.

    A kind is a logger and a message template, the message before its values are filled in.
    Whatever a client does over and over is thus a bounded number of lines. DEBUG passes.
    """

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object] = _later,
        period_seconds: float = PERIOD_SECONDS,
        info_lines: int = INFO_LINES,
        warning_lines: int = WARNING_LINES,
    ) -> None:
        """`later(seconds, call)` schedules a call, by default on a thread of its own."""
        super().__init__()
        self._later = later
        self._period_seconds = period_seconds
        self._info_lines = info_lines
        self._warning_lines = warning_lines
        self._lock = threading.Lock()
        self._counts = RepeatCounts[tuple[str, str]]()
        self._levels: dict[tuple[str, str], int] = {}  # of the first line of each kind

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is shown."""
        if record.levelno < logging.INFO or record.__dict__.pop("sums_up", False):
            return True
        kind = (record.name, str(record.msg).partition("\n")[0][:KIND_CHARACTERS])
        usual = self._info_lines if record.levelno < logging.WARNING else self._warning_lines
        lines = record.__dict__.pop(_BOUND, usual)
        with self._lock:
            begins = not self._counts
            kind = self._counts.bounded(kind, ("", OTHERS))
            self._levels.setdefault(kind, record.levelno)
            shown = self._counts.shows(kind, lines)
        if begins:
            self._later(self._period_seconds, self._period_over)
        return shown

    def _period_over(self) -> None:
        with self._lock:
            held_back = self._counts.end()
            levels, self._levels = self._levels, {}
        for kind, number in held_back:
            name, template = kind
            logging.getLogger(name or __name__).log(
                levels[kind],
                "%d more lines within %g s of: %s",
                *(number, self._period_seconds, template),
                extra={"sums_up": True},
            )


_TEXT = "%(levelname)s %(name)s: %(message)s"
_ABOUT: ContextVar[dict[str, str] | None] = ContextVar("auricle_log_about", default=None)
_NOISY = (
    *("httpx", "dynamo", "filelock", "urllib3", "numba", "nixl", "opentelemetry", "nats"),
    "vllm",  # its own level applies once it has been imported
)


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
    """Escapes unprintable characters, so that quoted text cannot add lines."""

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
    """Log the error that ends the process as one object instead of a traceback's lines."""
    log.critical("ended by %s: %s", kind.__name__, error, exc_info=(kind, error, trace))


def _add_what_it_is_about(record: logging.LogRecord) -> bool:
    for name, value in (_ABOUT.get() or {}).items():
        setattr(record, name, value)
    return True
