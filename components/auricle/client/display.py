"""Live text on a terminal: committed text bold, partial text dim, and a progress bar."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from auricle.client.events import StreamEvent
from auricle.messages.stream import Final, Partial


class LiveText:
    """Shows a session's events live; without a terminal it prints a line per change.

    `seconds` is the length of the audio, None if nobody knows. Use it as a context manager, in one
    thread.
    """

    def __init__(self, console: Console, seconds: float | None) -> None:
        self._console = console
        self._finals: list[str] = []
        self._committed = ""
        self._partial = ""
        columns: tuple[ProgressColumn, ...] = (TextColumn("{task.completed:.1f} s"),)
        if seconds is not None:
            columns = (
                BarColumn(bar_width=40),
                TextColumn("{task.completed:.1f} / {task.total:.1f} s"),
            )
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task("audio", total=seconds)
        self._live = Live(
            get_renderable=self._render, console=console, refresh_per_second=12, transient=False
        )

    def __enter__(self) -> LiveText:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def sent(self, seconds: float) -> None:
        """Update the progress: `seconds` of audio have been sent."""
        self._progress.update(self._task, completed=seconds)

    def event(self, event: StreamEvent) -> None:
        """Show the text of an event; events without text are ignored."""
        if isinstance(event, Partial):
            self._committed, self._partial = event.committed, event.partial
            self._print(event.audio_ms)
        elif isinstance(event, Final):
            self._finals.append(event.text)
            self._committed = self._partial = ""
            self._print(event.end_ms)

    def _print(self, at_ms: int) -> None:
        if not self._console.is_terminal:
            self._console.print(Text(f"{at_ms / 1000:6.2f} s  ") + self._text())

    def _text(self) -> Text:
        parts = [t for t in (*self._finals, self._committed.strip()) if t]
        text = Text(" ".join(parts), style="bold")
        return text + Text(f" {self._partial.strip()}", style="dim")

    def _render(self) -> Group:
        return Group(self._text(), self._progress)
