"""The parts of a recording: in order, and without work while one is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auricle.config.settings import FrontendSettings
from auricle.frontend.recordings.decoding_process import EndOfRecording, Output
from auricle.frontend.recordings.parts import RecordingPart
from auricle.frontend.recordings.transcriber import (
    PartTranscript,
    Recording,
    RecordingSegment,
    RecordingTranscriber,
    Whole,
)

pytestmark = pytest.mark.unit
SECOND = 16_000


class Transcriber(RecordingTranscriber):
    """Transcribes parts of one second; the first one waits for `first`."""

    def __init__(self, parts: int) -> None:
        settings = FrontendSettings.model_validate(
            {"recording_parts_in_flight": parts, "context_characters": 0}
        )
        spoken = SimpleNamespace(detects=False)
        frontend = SimpleNamespace(settings=settings, spoken=spoken)
        super().__init__(cast(Any, frontend), cast(Any, SimpleNamespace(outputs=self._outputs)))
        self._parts = parts
        self.first, self.others = asyncio.Event(), asyncio.Event()

    async def _outputs(self, *_: Any) -> AsyncGenerator[Output, None]:
        for number in range(self._parts):
            yield RecordingPart(number * SECOND, (number + 1) * SECOND, b"")
        yield EndOfRecording(self._parts * SECOND)

    async def _session(self, _: Any, part: RecordingPart, __: Any) -> PartTranscript:
        if part.start == 0:
            await self.first.wait()
        elif part.end == self._parts * SECOND:
            self.others.set()
        return PartTranscript()


async def test_later_parts_that_end_first_are_awaited_without_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    waits = 0
    wait = asyncio.wait

    async def counted(*tasks: Any, **options: Any) -> Any:
        nonlocal waits
        waits += 1
        return await wait(*tasks, **options)

    monkeypatch.setattr(asyncio, "wait", counted)
    found: list[Any] = []
    recorder = Transcriber(parts=4)

    async def transcribe() -> None:
        recording = Recording(path=tmp_path, name="x.wav", endpointing=None)
        found.extend([one async for one in recorder.transcribe(recording)])

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(transcribe())
        await recorder.others.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert waits < 20
        recorder.first.set()
    segments = [one for one in found if isinstance(one, RecordingSegment)]
    assert [one.start for one in segments] == [number * SECOND for number in range(4)]
    assert isinstance(found[-1], Whole)
