"""Lines that Dynamo's Rust code logs over and over are counted, and summed up later. No I/O.

The loggers of Python do so themselves (`process/repeats.py`). Rust's do not: a process that has no
descriptor left logs thousands of lines a second about connections that it cannot accept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from auricle.launcher.log_lines import plain

_PERIOD_SECONDS = 60.0
# Lines of one kind and process per period; fewer of those that warn.
_INFO_LINES, _WARNING_LINES = 600, 20
_MOST_KINDS = 500
_KIND_CHARACTERS = 200
# `2026-…T…Z  ERROR module: …`, and a JSON object that names its module.
_RUST = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z +(ERROR|WARN|INFO|DEBUG|TRACE) (.*)")
_JSON_LEVEL = re.compile(r'"level": ?"(ERROR|WARN|INFO|DEBUG|TRACE)"')
_VALUES = re.compile(r"[0-9a-f-]{8,}|\d+")
_MANY = "lines of other kinds"


@dataclass
class _Count:
    shown: int = 0
    held_back: int = 0


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
        self._counts: dict[tuple[str, str], _Count] = {}

    def passes(self, process: str, line: str) -> bool:
        """Whether this line of a process is shown."""
        found = _kind(line)
        if found is None:
            return True
        kind, most = found
        if not self._counts:
            self._began = self._clock()
        key = (process, kind)
        if key not in self._counts and len(self._counts) >= _MOST_KINDS:
            key = (process, _MANY)
        count = self._counts.setdefault(key, _Count())
        if count.shown < most:
            count.shown += 1
            return True
        count.held_back += 1
        return False

    def sum_up(self) -> None:
        """Say how many lines were held back, if the period is over; call it often."""
        if not self._counts or self._clock() < self._began + _PERIOD_SECONDS:
            return
        counts, self._counts = self._counts, {}
        for (process, kind), count in counts.items():
            if count.held_back:
                self._say(
                    process,
                    f"{count.held_back} more lines within {_PERIOD_SECONDS:g} s of: {kind}",
                )


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
    kind = _VALUES.sub("#", text)[:_KIND_CHARACTERS].strip()
    return kind, _WARNING_LINES if warns else _INFO_LINES
