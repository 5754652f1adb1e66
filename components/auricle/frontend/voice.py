"""Voice activity of all sessions of this frontend, batched per tick, in one worker thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.voice_activity import VAD_FRAME, Floats, VoiceActivityModel, VoiceState
from auricle.errors import AuricleError, Overloaded
from auricle.tasks import within

_TICK_DEADLINE_SECONDS = 30.0
# Frames of one stream per tick (1 s): a recorded file must not hold up live sessions.
_TICK_FRAMES = SAMPLE_RATE // VAD_FRAME + 1
# From one tick's begin to the next: streams that come meanwhile share a call of the model,
# which costs little more for thirty than for one.
_TICK_SECONDS = 0.02


@dataclass
class _Job:
    """Frames of one stream not looked at yet, and what was found so far."""

    state: VoiceState
    frames: Floats
    found: list[float]
    result: asyncio.Future[list[float]]


class VoiceDetector:
    """Speech probabilities of many streams; at most `max_queued_seconds` of audio wait."""

    def __init__(self, max_queued_seconds: float) -> None:
        self._limit = int(max_queued_seconds * SAMPLE_RATE / VAD_FRAME)
        self._jobs: list[_Job] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "voice-activity")
        self._model: VoiceActivityModel | None = None

    async def load(self) -> None:
        """Read the model; before `run`."""
        loop = asyncio.get_running_loop()
        self._model = await loop.run_in_executor(self._thread, VoiceActivityModel)

    async def detect(self, state: VoiceState, frames: Floats) -> list[float]:
        """Probabilities of a stream's next frames (n, 512). Raises Overloaded.

        One call per stream at a time: frames build on those before.
        """
        if not len(frames):
            return []
        if sum(len(job.frames) for job in self._jobs) + len(frames) > self._limit:
            raise Overloaded("too much audio is waiting for voice activity; try again")
        result: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(state, frames, [], result))
        self._arrived.set()
        return await result  # `run` ends it, at the latest when a tick takes too long

    async def run(self) -> None:
        """The loop; its owner cancels it. If the model fails, so do all that wait."""
        loop, following = asyncio.get_running_loop(), 0.0
        try:
            while True:
                await self._arrived.wait()
                await asyncio.sleep(max(0.0, following - loop.time()))
                following = loop.time() + _TICK_SECONDS
                self._jobs = [job for job in self._jobs if not job.result.done()]
                if not self._jobs:
                    self._arrived.clear()
                    continue
                await self._tick(list(self._jobs))
        finally:
            for job in self._jobs:
                if not job.result.done():
                    job.result.set_exception(AuricleError("voice activity has stopped"))
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _tick(self, jobs: list[_Job]) -> None:
        if self._model is None:
            raise RuntimeError("load() comes before run()")
        batch = [(job.state, job.frames[:_TICK_FRAMES]) for job in jobs]
        loop = asyncio.get_running_loop()
        ticking = loop.run_in_executor(self._thread, self._model.probabilities, batch)
        found = await within(_TICK_DEADLINE_SECONDS, ticking, "voice activity")
        for job, values in zip(jobs, found, strict=True):
            job.found += values.tolist()
            job.frames = job.frames[len(values) :]
            if not len(job.frames) and not job.result.done():
                job.result.set_result(job.found)
