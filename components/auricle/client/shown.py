"""What `auricle transcribe` prints of a session: its text or its translation, in a format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from auricle.client.events import StreamEvent
from auricle.messages.stream import Done, Final, Partial, Translation
from auricle.subtitles import Cue, as_srt, as_vtt

Format = Literal["txt", "srt", "vtt", "json"]


class Shown:
    """Collects a session's events; in `language`, or as it is spoken with None."""

    def __init__(self, language: str | None, warn: Callable[[str], None]) -> None:
        """`warn` gets a line for each segment that is not translated."""
        self._language = language
        self._warn = warn
        self._finals: dict[int, Final] = {}
        self._texts: dict[int, str] = {}
        self._done = ""

    def heard(self, event: StreamEvent) -> Partial | Final | None:
        """Take an event; return what is to be shown of it at once, None for nothing."""
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

    def text(self, wanted: Format) -> str:
        """Return the whole in a format other than JSON."""
        if wanted == "txt":
            if self._language is None:
                return self._done
            return " ".join(text for text in self._texts.values() if text)
        cues = [
            Cue(self._finals[segment].start_ms, self._finals[segment].end_ms, text)
            for segment, text in self._texts.items()
            if text
        ]
        return as_srt(cues) if wanted == "srt" else as_vtt(cues)
