"""Display of a session: live text on a terminal, and the transcript in a format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from auricle.client.events import StreamEvent
from auricle.protocol.stream import Done, Final, Partial, Translation
from auricle.transcript.subtitles import Cue, as_srt, as_tsv, as_vtt


class LiveText:
    """Shows committed text bold, partial text dim, and progress; without a terminal, lines.

    `seconds` is the length of the audio, None if unknown. Use it as a context manager, in one
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


Format = Literal["txt", "srt", "vtt", "tsv", "json"]


class TranscriptFormatter:
    """Collects a session's text, or its translation into `language`."""

    def __init__(self, language: str | None, warn: Callable[[str], None]) -> None:
        """`warn` receives a line for each segment without a translation."""
        self._language = language
        self._warn = warn
        self._finals: dict[int, Final] = {}
        self._texts: dict[int, str] = {}
        self._done = ""

    def add(self, event: StreamEvent) -> Partial | Final | None:
        """Add an event; return the event to display live, if any."""
        if isinstance(event, Done):
            self._done = event.text
        elif isinstance(event, Final) and event.text:
            self._finals[event.segment] = event
            self._texts.setdefault(event.segment, event.text if self._language is None else "")
        if isinstance(event, Translation):
            return self._translated(event)
        return event if self._language is None and isinstance(event, Partial | Final) else None

    def _translated(self, event: Translation) -> Partial | Final | None:
        if not event.final:
            return Partial(event.segment, event.committed, event.partial, 0, event.language)
        final = self._finals[event.segment]
        text = event.committed
        if event.missing == "same_language":
            text = final.text
        elif event.missing is not None:
            at = final.start_ms / 1000
            self._warn(f"the text at {at:.1f} s is not translated: {event.missing}")
        self._texts[event.segment] = text
        return Final(event.segment, text, final.start_ms, final.end_ms, event.language)

    def text(self, form: Format) -> str:
        """Return the transcript in a format other than JSON."""
        if form == "txt":
            if self._language is None:
                return self._done
            return " ".join(text for text in self._texts.values() if text)
        cues = [
            Cue(self._finals[segment].start_ms, self._finals[segment].end_ms, text)
            for segment, text in self._texts.items()
            if text
        ]
        return {"srt": as_srt, "vtt": as_vtt, "tsv": as_tsv}[form](cues)
