"""The pace of live ways: faster than real time, but no faster than their text arrives."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

# Times real time, at most.
SPEED = 4.0
# Grid points of speech without text. At two of them the server would skip the first one.
_AHEAD = 1.875
# Very short speech may have no text at all.
_PATIENCE_SECONDS = 3.0
GRID_SECONDS = 0.64


class Progress:
    """The audio of a live session that is covered by text, from its events. Pure."""

    def __init__(self) -> None:
        self._speaking = False
        self._covered = 0.0  # seconds of the recording whose text is known
        self._grid = GRID_SECONDS

    def event(self, event: dict[str, Any]) -> None:
        """Take an event of `WS /v1/audio/stream` or `WS /v1/realtime`."""
        kind = event["type"].rpartition(".")[2]
        if kind == "ready":
            self._grid = event["chunk_ms"] / 1000
        elif kind == "speech_started":
            self._speaking = True
            self._covered = event.get("at_ms", event.get("audio_start_ms")) / 1000
        elif kind == "speech_stopped":
            self._speaking = False
        elif kind == "partial" and "audio_ms" in event:
            self._covered = event["audio_ms"] / 1000
        elif kind == "partial":  # realtime does not report the covered audio
            self._covered += self._grid
        elif kind == "final":
            self._covered = event["end_ms"] / 1000
        elif kind == "segment":
            self._covered = event["end"]

    def behind(self, sent: float) -> bool:
        """Whether `sent` seconds hold speech whose text must arrive before more audio is sent."""
        return self._speaking and sent - self._covered > _AHEAD * self._grid


class Pace:
    """The pace of one session."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._changed = asyncio.Event()
        self._last = asyncio.get_running_loop().time()

    def event(self, event: dict[str, Any]) -> None:
        """Take an event of the session."""
        self._progress.event(event)
        self._changed.set()

    async def wait(self, sent: float, step: float) -> None:
        """Return when the next `step` seconds are due; `sent` were sent before."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._last + step / SPEED - loop.time()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._progress.behind(sent + step):
                    self._changed.clear()
                    await self._changed.wait()
        self._last = loop.time()
