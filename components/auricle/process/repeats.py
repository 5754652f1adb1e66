"""A logging filter: a line that is logged again and again is counted, and summed up later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from auricle.process.repeat_counts import (
    INFO_LINES,
    KIND_CHARACTERS,
    OTHERS,
    PERIOD_SECONDS,
    WARNING_LINES,
    RepeatCounts,
)

Kind = tuple[str, str]


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
        self._counts = RepeatCounts[Kind]()
        self._levels: dict[Kind, int] = {}  # of the first line of each kind

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is shown."""
        if record.levelno < logging.INFO or record.__dict__.pop("sums_up", False):
            return True
        kind = (record.name, str(record.msg).partition("\n")[0][:KIND_CHARACTERS])
        lines = self._info_lines if record.levelno < logging.WARNING else self._warning_lines
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
