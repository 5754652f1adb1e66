"""The launcher's output: one status line per process, and the logs of all processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from auricle.launcher.log_lines import as_json

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
