"""Lines that Dynamo's Rust code logs over and over are counted, and summed up later. No I/O.

The loggers of Python do so themselves (`process/repeats.py`). Rust's do not: a process that has no
descriptor left logs thousands of lines a second about connections that it cannot accept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from auricle.launcher.log_lines import plain
from auricle.process.repeat_counts import (
    INFO_LINES,
    KIND_CHARACTERS,
    OTHERS,
    PERIOD_SECONDS,
    WARNING_LINES,
    RepeatCounts,
)

# `2026-…T…Z  ERROR module: …`, and a JSON object that names its module.
_RUST = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z +(ERROR|WARN|INFO|DEBUG|TRACE) (.*)")
_JSON_LEVEL = re.compile(r'"level": ?"(ERROR|WARN|INFO|DEBUG|TRACE)"')
_VALUES = re.compile(r"[0-9a-f-]{8,}|\d+")


class Floods:
    """Lets the first lines of each kind pass in a period.

    A kind is what a line says apart from its time and its numbers. Used on the event loop.
    """

    def __init__(
        self, say: Callable[[str, str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`say(process, line)` is called for what sums up."""
        self._say = say
        self._clock = clock
        self._began = 0.0
        self._counts = RepeatCounts[tuple[str, str]]()

    def passes(self, process: str, line: str) -> bool:
        """Whether this line of a process is shown."""
        found = _kind(line)
        if found is None:
            return True
        kind, most = found
        if not self._counts:
            self._began = self._clock()
        return self._counts.shows(self._counts.bounded((process, kind), (process, OTHERS)), most)

    def sum_up(self) -> None:
        """Say how many lines were held back, if the period is over; call it often."""
        if not self._counts or self._clock() < self._began + PERIOD_SECONDS:
            return
        for (process, kind), number in self._counts.end():
            self._say(process, f"{number} more lines within {PERIOD_SECONDS:g} s of: {kind}")


def _kind(line: str) -> tuple[str, int] | None:
    """Return what a line of Rust's says, and how many such are shown; None for others."""
    if line.startswith("{"):
        level = _JSON_LEVEL.search(line) if '"target"' in line else None
        text = line
    else:
        level = _RUST.match(plain(line))
        text = "" if level is None else level.group(0).partition(" ")[2]
    if level is None:
        return None
    warns = level.group(1) in ("ERROR", "WARN")
    kind = _VALUES.sub("#", text)[:KIND_CHARACTERS].strip()
    return kind, WARNING_LINES if warns else INFO_LINES
