"""Handles diarize requests: admission, and batching across sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from prometheus_client import CollectorRegistry

from auricle.annotation.speakers.model import MOST_SPEAKERS, Diarized, SpeakerModel, SpeakerSegment
from auricle.audio.constants import SAMPLE_RATE
from auricle.config.settings import DiarizeWorkerSettings
from auricle.core.errors import BadRequest
from auricle.load.pools import check_place
from auricle.load.segment_worker import SegmentMetrics, SegmentWorker
from auricle.process.device import DeviceThread
from auricle.process.metrics import ComponentMetrics
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.annotation import DiarizeReply, DiarizeRequest, SpeakerTurn


class DiarizeWorkerMetrics(SegmentMetrics):
    """The diarize worker's own metrics; load/reporter.py has its load metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "diarize_worker")
        super().__init__(new)
        self._segments = new.counter("segments", "segments diarized")
        self._audio = new.counter("audio_seconds", "audio of the segments diarized")
        self._turns = new.counter("turns", "turns of speakers found")
        self.pass_seconds = new.histogram(
            "pass_seconds",
            "duration of a batch",
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )

    def diarized(self, seconds: float, turns: int) -> None:
        self._segments.inc()
        self._audio.inc(seconds)
        self._turns.inc(turns)


class DiarizeWorker(SegmentWorker[SpeakerSegment, Diarized]):
    def __init__(
        self,
        settings: DiarizeWorkerSettings,
        model: SpeakerModel,
        metrics: DiarizeWorkerMetrics,
        tracer: Tracer = OFF,
    ) -> None:
        super().__init__(
            metrics,
            DeviceThread("speaker model", model.warm_up),
            model.diarize,
            max_batch=settings.max_batch_segments,
            max_requests=settings.max_requests,
        )
        self._settings = settings
        self._model = model
        self._metrics = metrics
        self._tracer = tracer

    async def diarize(self, request: DiarizeRequest) -> DiarizeReply:
        """Return the turns of a segment.

        Raises Overloaded if no slot is free, and BadRequest for a malformed segment or another
        speaker model's state.
        """
        others = self.meter.in_flight
        with self.meter.request():
            segment = self._checked(request, others)
            with self._tracer.span("diarize", request.trace):
                found = await self._submit(segment, background=request.background)
        self._metrics.diarized(len(segment.pcm) / SAMPLE_RATE, len(found.turns))
        turns = tuple(SpeakerTurn(turn.speaker, turn.start, turn.end) for turn in found.turns)
        return DiarizeReply(turns, found.state)

    def _checked(self, request: DiarizeRequest, others: int) -> SpeakerSegment:
        check_place(others, self._settings.max_requests, background=request.background)
        samples, odd = divmod(len(request.pcm), 2)
        longest = int(self._settings.max_segment_seconds * SAMPLE_RATE)
        if odd or not 0 < samples <= longest:
            raise BadRequest(
                f"a segment of {len(request.pcm)} bytes, expected an even number up to "
                f"{2 * longest} (Common.max_segment_seconds)"
            )
        if not 1 <= request.max_speakers <= MOST_SPEAKERS:
            raise BadRequest(f"max_speakers is {request.max_speakers}, not 1 to {MOST_SPEAKERS}")
        self._model.check(request.state)
        return SpeakerSegment(
            np.frombuffer(request.pcm, "<i2"), request.state, request.max_speakers
        )

    def _measured(self, batch: Sequence[SpeakerSegment], seconds: float) -> Mapping[str, float]:
        self._metrics.pass_seconds.observe(seconds)
        return {"speech_seconds": sum(len(one.pcm) for one in batch) / SAMPLE_RATE}
