"""Handles diarize requests: admission, batching across sessions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.batcher import Batcher
from auricle.diarize_worker.metrics import DiarizeWorkerMetrics
from auricle.errors import BadRequest
from auricle.load.places import check_place
from auricle.load.work_meter import WorkMeter
from auricle.messages import DiarizeReply, DiarizeRequest, SpeakerTurn
from auricle.process.device_thread import DeviceThread
from auricle.process.tracing import OFF, Tracer
from auricle.settings import DiarizeWorkerSettings
from auricle.speakers.model import MOST_SPEAKERS, Diarized, Heard, SpeakerModel


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
        self.device = DeviceThread("speaker model", model.warm_up)
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
        check_place(others, self._settings.max_requests, background=request.background)
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
        began = time.monotonic()
        for job in jobs:
            self.meter.waited(began - job.submitted)
        batch = [job.heard for job in jobs]
        found = await self.device.run(self._model.diarize, batch)
        seconds = sum(len(one.pcm) for one in batch) / SAMPLE_RATE
        self.meter.did(segments=len(jobs), speech_seconds=seconds)
        self._metrics.batch_segments.observe(len(jobs))
        self._metrics.pass_seconds.observe(time.monotonic() - began)
        return found
