"""The text of one utterance as Wyoming tells it: chunks that are never taken back. No I/O."""

from __future__ import annotations

from auricle.checkpoint.languages import language_code
from auricle.frontend.wyoming.events import encode
from auricle.messages.sessions import Final, Partial


class Transcript:
    """Turns the segments of one session into one transcript. All chunks joined give its text."""

    def __init__(self) -> None:
        self._finals: list[str] = []
        self._language: str | None = None
        self._told: str | None = None  # what the chunks so far say; None before the first

    def heard(self, event: Partial | Final) -> bytes:
        """Return what to tell of an event: its text that will not change, if that is new."""
        self._language = language_code(event.language) or self._language
        if isinstance(event, Final):
            if event.text:
                self._finals.append(event.text)
            return self._grown(self._text)
        return self._grown(" ".join([*self._finals, event.committed]) if event.committed else "")

    def whole(self) -> bytes:
        """Return what to tell at the end."""
        begun = b"" if self._told is not None else self._begin()
        whole = encode("transcript", text=self._text, language=self._language)
        return begun + whole + encode("transcript-stop")

    @property
    def _text(self) -> str:
        return " ".join(self._finals)

    def _grown(self, text: str) -> bytes:
        told = self._told or ""
        if len(text) <= len(told):
            return b""
        begun = b"" if self._told is not None else self._begin()
        self._told = text
        return begun + encode("transcript-chunk", text=text[len(told) :])

    def _begin(self) -> bytes:
        self._told = ""
        return encode("transcript-start", language=self._language)
