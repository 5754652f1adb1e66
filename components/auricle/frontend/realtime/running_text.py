"""The texts of a session's segments as one text that grows. No I/O."""

from __future__ import annotations

from auricle.translation.words import between


class RunningText:
    """Tells each segment after the one before, whatever is known first. Nothing is told twice."""

    def __init__(self) -> None:
        self._segment = 0  # the one that is being told
        self._told = ""  # of it
        self._last = ""  # the end of everything told
        self._known: dict[int, tuple[str, bool]] = {}

    def grown(self, segment: int, text: str, *, ended: bool) -> str:
        """Return what is to be told now that a segment has this text; more may come unless it has
        `ended`. Text only grows."""
        if segment < self._segment:
            return ""
        self._known[segment] = (text, ended)
        found = ""
        while (now := self._known.get(self._segment)) is not None:
            text, over = now
            found += self._further(text)
            if not over:
                break
            del self._known[self._segment]
            self._segment, self._told = self._segment + 1, ""
        return found

    def _further(self, text: str) -> str:
        new = text[len(self._told) :]
        if not new:
            return ""
        if not self._told:
            new = between(self._last, new) + new
        self._told, self._last = text, new[-1]
        return new
