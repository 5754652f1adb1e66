"""Log lines of processes: as JSON objects, without those that repeat. No I/O."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from auricle.process.logs import (
    INFO_LINES,
    KIND_CHARACTERS,
    OTHERS,
    PERIOD_SECONDS,
    WARNING_LINES,
    RepeatCounts,
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Prefixes of other libraries' log lines: `WARNING:`, `2026-… ERROR`, glog's `W1122 03:27:37`.
_LEVEL = re.compile(
    r"^\W{0,2}(?:[\dT:.,Z+-]+\s+){0,2}(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b"
    r"|^\[?([DIWEF])\d{4} "
)
_NAMES = {
    "WARN": "WARNING",
    "FATAL": "CRITICAL",
    **{"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"},
}
# Lines of Rust: `2026-…T…Z  ERROR module: …`, and a JSON object that names its module.
_RUST = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z +(ERROR|WARN|INFO|DEBUG|TRACE) (.*)")
_JSON_LEVEL = re.compile(r'"level": ?"(ERROR|WARN|INFO|DEBUG|TRACE)"')
_VALUES = re.compile(r"[0-9a-f-]{8,}|\d+")


def plain(line: str) -> str:
    """Return the line without ANSI escape codes."""
    return _ANSI.sub("", line)


def is_of_one_request(line: str) -> bool:
    """Return whether this is a line that Dynamo logs for every request, whatever DYN_LOG is."""
    return "request_span" in line and (" INFO" in plain(line) or '"INFO"' in line)


def as_json(process: str, line: str) -> str:
    """Return one line of the output of `process` as a JSON object.

    A JSON object keeps its fields and gets `component` and `process`. Other text becomes
    `message`; its level is parsed from its beginning and is INFO by default.
    """
    text = plain(line)
    entry = _object(text)
    if entry is None:
        entry = {"time": datetime.now(UTC).isoformat(), "level": _level(text), "message": text}
    # Dynamo's objects use `component` in another sense and other names of levels.
    entry["component"] = process.partition("-")[0]
    entry["process"] = process
    entry["level"] = _NAMES.get(level := str(entry.get("level", "INFO")), level)
    return json.dumps(entry, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _level(text: str) -> str:
    found = _LEVEL.match(text)
    if found is None:
        return "INFO"
    name = found.group(1) or found.group(2)
    return _NAMES.get(name, name)


class RepeatedLines:
    """Lets the first lines of each kind that Rust code logs pass in a period, and counts others.

    Loggers of Python do so themselves (`process/logs.py`). Rust's do not: a process without a
    free descriptor logs thousands of lines a second about connections that it cannot accept.
    A kind is a line without its time and numbers. Used on the event loop.
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
    """Return the kind of a Rust log line, and the number that is shown; None for other lines."""
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


# The launcher's output: one status line per process, and the logs of all processes.

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


class StatusBoard:
    """Shows the statuses of processes while they start, and their logs throughout.

    Thread-safe. On a terminal the status lines are redrawn in place; elsewhere, and with
    `as_json`, every change of status is printed as a log line. `quiet` hides statuses.
    """

    def __init__(
        self, names: list[str], console: Console, *, quiet: bool, as_json: bool = False
    ) -> None:
        self._console = console
        self._quiet = quiet
        self._as_json = as_json
        self._states = dict.fromkeys(names, "waiting")
        self._since = dict.fromkeys(names, time.monotonic())
        self._colours = {n: _COLOURS[i % len(_COLOURS)] for i, n in enumerate(names)}
        self._lock = threading.RLock()
        self._closed = False
        # Called once when the output cannot be written any more, as its reader has closed it.
        self.on_closed: Callable[[], None] = lambda: None
        self._live: Live | None = None

    def start(self) -> None:
        """Start redrawing the status lines, on a terminal."""
        if self._console.is_terminal and not self._quiet and not self._as_json:
            self._live = Live(get_renderable=self._render, console=self._console)
            self._live.start()

    def stop(self) -> None:
        """Stop redrawing the status lines; logs are still shown."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def add(self, name: str) -> None:
        """Add a process."""
        with self._lock:
            self._colours[name] = _COLOURS[len(self._states) % len(_COLOURS)]
            self._since[name] = time.monotonic()
            self._states[name] = "waiting"

    def remove(self, name: str) -> None:
        """Remove a process; later lines of its output are still shown."""
        with self._lock:
            self.set(name, "gone")
            del self._states[name]

    def set(self, name: str, state: str) -> None:
        """Set the status of a process."""
        with self._lock:
            if self._states.get(name) == state:
                return
            self._states[name] = state
            self._since[name] = time.monotonic()
            if self._live is None and not self._quiet:
                self.log(name, state)

    def log(self, name: str, line: str) -> None:
        """Print a line of a process's output, prefixed with its name, or as JSON.

        Prints nothing once the output is closed.
        """
        with self._lock:
            if self._closed:
                return
            if self._as_json:
                shown = Text(as_json(name, line))
            else:
                # Colours of the line are kept on a terminal and removed elsewhere.
                prefix = Text(f"{name:<14} ", style=self._colours.get(name, ""))
                shown = prefix + Text.from_ansi(line)
            try:
                self._console.print(shown, highlight=False, soft_wrap=True)
            except (BrokenPipeError, SystemExit):  # rich raises SystemExit on a closed output
                self._closed = True
                self.on_closed()

    def _render(self) -> Group:
        lines = []
        for name, state in self._states.items():
            mark = "●" if state == "ready" else "○"
            seconds = time.monotonic() - self._since[name]
            tail = "" if state in ("ready", "waiting") else f" ({seconds:.0f} s)"
            lines.append(Text(f"{mark} {name:<14} {state}{tail}", style=self._colours[name]))
        return Group(*lines)
