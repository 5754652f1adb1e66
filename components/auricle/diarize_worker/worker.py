"""Handles diarize requests: admission, batching across sessions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.batcher import Batcher
from auricle.diarize_worker.metrics import DiarizeWorkerMetrics
from auricle.errors import BadRequest, Overloaded, ProcessFailed
from auricle.load.work_meter import WorkMeter
from auricle.messages import DiarizeReply, DiarizeRequest, SpeakerTurn
from auricle.process.device_faults import end_if_sticky, is_out_of_memory
from auricle.process.tracing import OFF, Tracer
from auricle.settings import DiarizeWorkerSettings
from auricle.speakers.model import MOST_SPEAKERS, Diarized, Heard, SpeakerModel

log = logging.getLogger(__name__)
_BACKGROUND_SHARE = 2  # background requests may use one place in so many


@dataclass(frozen=True)
class _Job:
    """A segment; `submitted` is in monotonic seconds."""

    heard: Heard
    submitted: float


class DiarizeWorker:
    """Diarizes up to `max_requests` segments at a time; keeps no state of any session.

    Its methods must be called on one event loop; a thread of its own runs the model.
    """

    def __init__(
        self,
        settings: DiarizeWorkerSettings,
        model: SpeakerModel,
        metrics: DiarizeWorkerMetrics,
        tracer: Tracer = OFF,
    ) -> None:
        self._settings = settings
        self._model = model
        self._metrics = metrics
        self._tracer = tracer
        self.meter = WorkMeter()
        self._device_thread = ThreadPoolExecutor(1, "speakers")
        self._batcher: Batcher[_Job, Diarized] = Batcher(
            self._diarize_batch,
            max_batch=settings.max_batch_segments,
            max_queued=settings.max_requests,
        )
        metrics.in_flight.set_function(lambda: self.meter.in_flight)
        metrics.requests_limit.set(settings.max_requests)

    async def run(self) -> None:
        """Run batches until cancelled. Raises ProcessFailed if the device is broken."""
        await self._batcher.run()

    async def answers(self) -> None:
        """Return once the model's thread has answered, which it does between two batches."""
        await asyncio.get_running_loop().run_in_executor(self._device_thread, time.monotonic)

    def close(self) -> None:
        """Stop the model's thread; what is queued there is dropped."""
        self._device_thread.shutdown(cancel_futures=True)

    async def diarize(self, request: DiarizeRequest) -> DiarizeReply:
        """Return who spoke in a segment.

        Raises Overloaded if no place is free, and BadRequest for what is no segment, or for the
        state of another speaker model.
        """
        others = self.meter.in_flight
        with self.meter.request():
            heard = self._checked(request, others)
            with self._tracer.span("diarize", request.trace):
                job = _Job(heard, time.monotonic())
                found = await self._batcher.submit(job, background=request.background)
        self._metrics.diarized(len(heard.pcm) / SAMPLE_RATE, len(found.turns))
        turns = tuple(SpeakerTurn(turn.speaker, turn.start, turn.end) for turn in found.turns)
        return DiarizeReply(turns, found.state)

    def _checked(self, request: DiarizeRequest, others: int) -> Heard:
        places = self._settings.max_requests
        room = max(1, places // _BACKGROUND_SHARE) if request.background else places
        if others >= room:
            raise Overloaded(f"{others} of {places} places are in use; try again")
        samples, odd = divmod(len(request.pcm), 2)
        longest = int(self._settings.max_segment_seconds * SAMPLE_RATE)
        if odd or not 0 < samples <= longest:
            raise BadRequest(
                f"a segment of {len(request.pcm)} bytes, expected an even number up to "
                f"{2 * longest} (Common.max_segment_seconds)"
            )
        if not 1 <= request.most_speakers <= MOST_SPEAKERS:
            raise BadRequest(f"most_speakers is {request.most_speakers}, not 1 to {MOST_SPEAKERS}")
        self._model.check(request.state)
        return Heard(np.frombuffer(request.pcm, "<i2"), request.state, request.most_speakers)

    async def _diarize_batch(self, jobs: Sequence[_Job]) -> list[Diarized]:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        for job in jobs:
            self.meter.waited(began - job.submitted)
        batch = [job.heard for job in jobs]
        try:
            found = await loop.run_in_executor(self._device_thread, self._model.diarize, batch)
        except Exception as error:
            end_if_sticky(error, "a pass of the speaker model")
            if not is_out_of_memory(error):
                await self._check_device(error)
            raise
        seconds = sum(len(one.pcm) for one in batch) / SAMPLE_RATE
        self.meter.did(segments=len(jobs), speech_seconds=seconds)
        self._metrics.batch_segments.observe(len(jobs))
        self._metrics.pass_seconds.observe(time.monotonic() - began)
        return found

    async def _check_device(self, error: Exception) -> None:
        """After a failed pass, try silence: if that fails too, the cause is not the job.

        Raises ProcessFailed then.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._device_thread, self._model.warm_up)
        except Exception as again:
            log.error("a pass failed: %s", error)
            raise ProcessFailed(f"the speaker model fails on silence too: {again}") from error
