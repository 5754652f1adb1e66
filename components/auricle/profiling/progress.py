"""What `auricle profile` shows while it measures: a line per step, and how long it will take."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from auricle.launcher.log_lines import is_of_one_request

_FIRST_GUESS = 7  # levels up to a worker's knee: 1, 2, 4 … 32 speakers, and one between


class Progress:
    """Of `ramps`, each of some levels. How many is not known before, so what is left is
    guessed from the longest ramp so far. Pure."""

    def __init__(self, ramps: int, level_seconds: float) -> None:
        self._ramps_left = ramps
        self._level_seconds = level_seconds
        self._longest = 0
        self._level = 0
        self._done = 0

    def level_done(self) -> None:
        """One level was measured."""
        self._level += 1
        self._done += 1

    def ramp_done(self) -> None:
        """A worker was taken to its knee."""
        self._longest = max(self._longest, self._level)
        self._ramps_left -= 1
        self._level = 0

    @property
    def seconds_left(self) -> float:
        """At least one level, until the last ramp is done."""
        if not self._ramps_left:
            return 0.0
        levels = self._longest or _FIRST_GUESS
        current = max(1, levels - self._level)
        return (current + (self._ramps_left - 1) * levels) * self._level_seconds

    @property
    def share(self) -> float:
        """The part that is done, 0 to 1, of what there was and is left."""
        done = self._done * self._level_seconds
        return done / (done + self.seconds_left) if done else 0.0

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return f"about {minutes} min {seconds:02d} s left"


@contextmanager
def bar(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Show a bar below the lines of the console while the block runs; without a terminal nothing.

    Yields what moves it.
    """
    columns = (BarColumn(bar_width=40), TextColumn("{task.description}"))
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("measuring", total=1.0)
        yield lambda to: bars.update(task, completed=to.share, description=str(to))


@contextmanager
def without_request_lines() -> Iterator[None]:
    """Standard error without the line that Dynamo writes for every request of this process.

    No setting of Dynamo 1.6 silences it, and it is written past Python: the descriptor is
    replaced by a pipe, whose other lines are passed on.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    passing = threading.Thread(target=_pass_on, args=(reading, kept), name="stderr", daemon=True)
    passing.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)  # the pipe's last writer is closed by this
        passing.join(5.0)
        os.close(kept)


def _pass_on(reading: int, kept: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not is_of_one_request(line.decode(errors="replace")):
                os.write(kept, line)
