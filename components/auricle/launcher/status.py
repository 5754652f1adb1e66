"""What the launcher shows: one live line per component, and the components' logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from auricle.status import parse_status

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


class StatusBoard:
    """Shows statuses while components start; afterwards only logs.

    Thread-safe. On a terminal the lines are redrawn in place; elsewhere each
    change is a line of its own.
    """

    def __init__(self, names: list[str], console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._states = dict.fromkeys(names, "waiting")
        self._since = dict.fromkeys(names, time.monotonic())
        self._colours = {n: _COLOURS[i % len(_COLOURS)] for i, n in enumerate(names)}
        self._lock = threading.RLock()
        self._closed = False
        # Called once if whoever read the output has gone.
        self.on_closed: Callable[[], None] = lambda: None
        self._live: Live | None = None

    def start(self) -> None:
        """Begin the live display."""
        if self._console.is_terminal and not self._quiet:
            self._live = Live(get_renderable=self._render, console=self._console)
            self._live.start()

    def stop(self) -> None:
        """End the live display; logs go on."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def add(self, name: str) -> None:
        """One component more."""
        with self._lock:
            self._colours[name] = _COLOURS[len(self._states) % len(_COLOURS)]
            self._since[name] = time.monotonic()
            self._states[name] = "waiting"

    def remove(self, name: str) -> None:
        """One component less; what it still says is shown all the same."""
        with self._lock:
            self.set(name, "gone")
            del self._states[name]

    def set(self, name: str, state: str) -> None:
        """A component's new state."""
        with self._lock:
            if self._states.get(name) == state:
                return
            self._states[name] = state
            self._since[name] = time.monotonic()
            if self._live is None and not self._quiet:
                self.log(name, state)

    def log(self, name: str, line: str) -> None:
        """A line of a component's output, prefixed with its name."""
        with self._lock:
            if self._closed:
                return
            prefix = Text(f"{name:<14}", style=self._colours[name])
            try:
                self._console.print(prefix + Text(" " + line), highlight=False, soft_wrap=True)
            except (BrokenPipeError, SystemExit):  # rich makes a SystemExit of a closed output
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


def _is_of_one_request(line: str) -> bool:
    """Dynamo writes a line at INFO for every request, whatever DYN_LOG says."""
    return "request_span" in line and " INFO" in line


class OutputReader:
    """Takes a process's output from the supervisor: status words out, the rest logged."""

    def __init__(
        self,
        name: str,
        on_status: Callable[[str, str], None],
        on_line: Callable[[str, str], None],
    ) -> None:
        self._name = name
        self._on_status = on_status
        self._on_line = on_line
        self._rest = b""

    def __call__(self, chunk: dict[str, bytes]) -> None:
        """Supervisor callback with `data` bytes, cut anywhere."""
        *lines, self._rest = (self._rest + chunk["data"]).split(b"\n")
        for raw in lines:
            line = raw.decode(errors="replace").rstrip()
            status = parse_status(line)
            if status is not None:
                self._on_status(self._name, status)
            elif line and not _is_of_one_request(line):
                self._on_line(self._name, line)

    def close(self) -> None:
        """Nothing is held open."""
