"""Voice activity detection for all sessions of this frontend, batched, in one worker thread.

A stream waits for the probabilities of its frames before the next call, so that each stream has one
call in the queue at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from auricle.audio.voice_activity import Floats, VoiceActivityModel, VoiceState
from auricle.core.aio import with_timeout
from auricle.core.errors import AuricleError

_ROUND_DEADLINE_SECONDS = 30.0
# Frames of each stream per round (160 ms), as many as a live stream has at a time. It waits for one
# round of the others at most, however much they have sent.
_ROUND_FRAMES = 5
# Rounds per tick (1 s of audio of each stream), which bounds what streams that are sent faster
# than real time cost.
_ROUNDS = 6
# Time from the start of one tick to the next. Streams that arrive in between share a round. Four or
# more share calls of the model, which cost little more for thirty streams than for four.
_TICK_SECONDS = 0.02


class VoiceModel(Protocol):
    """A model such as `audio.voice_activity.VoiceActivityModel`; tests have others."""

    def probabilities(self, streams: Sequence[tuple[VoiceState, Floats]]) -> list[Floats]:
        """Return each stream's speech probabilities, float32 (n,), for its frames (n, 512)."""
        ...


@dataclass
class _Job:
    """The waiting frames of one stream, shape (n, 512), and the results so far."""

    state: VoiceState
    frames: Floats
    found: list[float]
    result: asyncio.Future[list[float]]


class VoiceDetector:
    """Computes speech probabilities of many streams, in rounds of a few frames of each.

    All methods must be called on one event loop; the model runs in a thread of its own.
    """

    def __init__(self, model: Callable[[], VoiceModel] = VoiceActivityModel) -> None:
        """`load` calls `model` in the model's thread."""
        self._new_model = model
        self._jobs: list[_Job] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "voice-activity")
        self._model: VoiceModel | None = None

    async def load(self) -> None:
        """Load the model. Call this before `run`."""
        loop = asyncio.get_running_loop()
        self._model = await loop.run_in_executor(self._thread, self._new_model)

    async def detect(self, state: VoiceState, frames: Floats) -> list[float]:
        """Return one probability for each of a stream's next frames, shape (n, 512).

        Only one call per stream may be in progress, because `state` carries over from frame to
        frame. Raises AuricleError if detection has stopped.
        """
        if not len(frames):
            return []
        result: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(state, frames, [], result))
        self._arrived.set()
        return await result  # `run` settles it, at the latest when a round exceeds its deadline

    async def run(self) -> None:
        """Run ticks until cancelled by the owner of this task.

        If the model fails or exceeds its deadline, all waiting calls of `detect` fail too.
        """
        loop, following = asyncio.get_running_loop(), 0.0
        try:
            while True:
                await self._arrived.wait()
                await asyncio.sleep(max(0.0, following - loop.time()))
                following = loop.time() + _TICK_SECONDS
                await self._tick()
        finally:
            for job in self._jobs:
                if not job.result.done():
                    job.result.set_exception(AuricleError("voice activity has stopped"))
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _tick(self) -> None:
        for _ in range(_ROUNDS):
            self._jobs = [job for job in self._jobs if not job.result.done()]
            if not self._jobs:
                self._arrived.clear()
                return
            await self._round(list(self._jobs))

    async def _round(self, jobs: list[_Job]) -> None:
        if self._model is None:
            raise RuntimeError("load() comes before run()")
        batch = [(job.state, job.frames[:_ROUND_FRAMES]) for job in jobs]
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, self._model.probabilities, batch)
        found = await with_timeout(_ROUND_DEADLINE_SECONDS, running, "voice activity")
        for job, values in zip(jobs, found, strict=True):
            job.found += values.tolist()
            job.frames = job.frames[len(values) :]
            if not len(job.frames) and not job.result.done():
                job.result.set_result(job.found)
