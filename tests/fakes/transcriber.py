"""A transcriber of recordings that answers from a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from auricle.core.errors import UndecodableAudio
from auricle.frontend.recordings.transcriber import (
    DecodedSeconds,
    Recording,
    RecordingSegment,
    Whole,
)

Outputs = AsyncGenerator[DecodedSeconds | RecordingSegment | Whole, None]


class Scripted:
    """Transcribes without processors, in the real transcriber's place."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.recordings: list[Recording] = []
        self.heard = 1.0  # decoded seconds; one second has text

    async def transcribe(self, recording: Recording) -> Outputs:
        self.asked.set()
        self.recordings.append(recording)
        yield DecodedSeconds(self.heard)
        if recording.name == "broken.wav":
            raise UndecodableAudio("broken.wav is not audio")
        if recording.name == "endless.wav":
            await asyncio.Event().wait()
        yield RecordingSegment("ten green apples", 0, 16_000, "English")
        yield Whole(1.0)
        await asyncio.sleep(0)  # as in the real one, which closes processes and sessions
