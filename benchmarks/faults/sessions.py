"""One live session in real time: its texts and their times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import websockets

from auricle.audio.pcm import to_float
from auricle.client.sources import file_blocks
from auricle.client.stream import Event, stream_file
from auricle.core.errors import AuricleError
from auricle_testing import recordings
from auricle_testing.transcripts import heard
from benchmarks.faults.figures import Heard

# After the end of the audio: a worker may have to be started again before the last text.
_LAST_SECONDS = 120.0


@dataclass
class Session:
    """The session of one recording. Times are seconds since its first sample was due.

    `audio` is the name of a bundled recording, or a file. `error` is the reason of its failure,
    `broken` which promise of the protocol was broken; both are empty if it succeeded. `hits` are
    the faults that were injected while it was live: (kind, when). `losses` has a line for each
    connection that it lost; the session then resumed at the next of `urls`.
    """

    urls: Sequence[str]
    audio: str
    events: list[Event] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    hits: list[tuple[str, float]] = field(default_factory=list)
    error: str = ""
    broken: str = ""
    losses: list[str] = field(default_factory=list)
    _began: float | None = None
    _reached: asyncio.Event = field(default_factory=asyncio.Event)
    _until_seconds: float = 0.0

    @property
    def now(self) -> float:
        """How long ago the first sample was due; 0 before."""
        return 0.0 if self._began is None else asyncio.get_running_loop().time() - self._began

    @property
    def text(self) -> str:
        """The whole text, or the text so far."""
        if self.events and self.events[-1]["type"] == "done":
            return str(self.events[-1]["text"])
        return " ".join(e["text"] for e in self.events if e["type"] == "final" and e["text"])

    async def run(self, share: float = 0.0) -> None:
        """Stream the recording and receive its text; `reached` returns once `share` of it is
        sent."""
        samples = await asyncio.to_thread(_samples, self.audio)
        seconds = len(samples) / recordings.SAMPLE_RATE
        self._until_seconds = share * seconds
        try:
            async with asyncio.timeout(seconds + _LAST_SECONDS):
                async for event in stream_file(
                    self.urls,
                    samples,
                    live=True,
                    on_sent=self._has_sent,
                    on_lost=self.losses.append,
                ):
                    self._take(event)
        except TimeoutError:
            self.error = f"not done {_LAST_SECONDS:g} s after the end of its audio"
        except (AuricleError, OSError, websockets.WebSocketException) as error:
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._reached.set()
        if not self.error:
            self._check()

    async def reached(self) -> bool:
        """Return once that share of the audio was sent: True, or False if the session has ended
        before."""
        await self._reached.wait()
        return self._began is not None and not self.error

    def _has_sent(self, seconds: float) -> None:
        if self._began is None:  # a packet is sent when its last sample is due
            self._began = asyncio.get_running_loop().time() - seconds
        if seconds >= self._until_seconds:
            self._reached.set()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if event["type"] == "partial":
            self.heard.append((self.now, float(event["audio_ms"])))
        elif event["type"] == "final":
            self.heard.append((self.now, float(event["end_ms"])))

    def _check(self) -> None:
        try:
            heard(self.events)
        except AssertionError as error:
            self.broken = str(error) or "committed text was taken back, or segments overlap"


def _samples(audio: str) -> npt.NDArray[np.float32]:
    if audio in recordings.NAMES:
        return recordings.samples(audio)
    return to_float(np.concatenate(list(file_blocks(Path(audio)))))
