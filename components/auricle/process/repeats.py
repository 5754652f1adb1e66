"""A logging filter: a line that is logged again and again is counted, and summed up later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

_PERIOD_SECONDS = 60.0
# Lines of one kind per period. Errors are rarer, and have tracebacks.
_INFO_LINES, _WARNING_LINES = 600, 20
_MOST_KINDS = 500
_TEMPLATE_CHARACTERS = 200
_MANY = "lines of other kinds"
Kind = tuple[str, str]


@dataclass
class _Count:
    level: int
    shown: int = 0
    held_back: int = 0


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
        period_seconds: float = _PERIOD_SECONDS,
        info_lines: int = _INFO_LINES,
        warning_lines: int = _WARNING_LINES,
    ) -> None:
        """`later(seconds, call)` schedules a call, by default on a thread of its own."""
        super().__init__()
        self._later = later
        self._period_seconds = period_seconds
        self._info_lines = info_lines
        self._warning_lines = warning_lines
        self._lock = threading.Lock()
        self._counts: dict[Kind, _Count] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is shown."""
        if record.levelno < logging.INFO or record.__dict__.pop("sums_up", False):
            return True
        kind = (record.name, str(record.msg).partition("\n")[0][:_TEMPLATE_CHARACTERS])
        lines = self._info_lines if record.levelno < logging.WARNING else self._warning_lines
        with self._lock:
            begins = not self._counts
            if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
                kind = ("", _MANY)
            count = self._counts.setdefault(kind, _Count(record.levelno))
            shown = count.shown < lines
            if shown:
                count.shown += 1
            else:
                count.held_back += 1
        if begins:
            self._later(self._period_seconds, self._period_over)
        return shown

    def _period_over(self) -> None:
        with self._lock:
            counts, self._counts = self._counts, {}
        for (name, template), count in counts.items():
            if count.held_back:
                logging.getLogger(name or __name__).log(
                    count.level,
                    "%d more lines within %g s of: %s",
                    *(count.held_back, self._period_seconds, template),
                    extra={"sums_up": True},
                )
