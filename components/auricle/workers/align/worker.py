"""Handles align requests: admission, fetching the windows, batching, repairing times."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

from prometheus_client import CollectorRegistry

from auricle.annotation.alignment import monotone
from auricle.config.settings import AlignWorkerSettings
from auricle.core.errors import AuricleError, BadRequest
from auricle.embeddings.fetch import WindowFetcher
from auricle.embeddings.layout import check_keys
from auricle.embeddings.metrics import LandingMetrics
from auricle.load.pools import check_place
from auricle.load.segment_worker import SegmentMetrics, SegmentWorker
from auricle.process.device import DeviceThread
from auricle.process.metrics import ComponentMetrics
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.annotation import AlignReply, AlignRequest
from auricle.workers.align.passes import Aligner, AlignerPass, AlignJob
from auricle.workers.align.scripts import Script, ScriptMaker


class AlignWorkerMetrics(SegmentMetrics):
    """The align worker's own metrics; load/reporter.py has its load metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "align_worker")
        super().__init__(new)
        self._segments = new.counter("segments", "segments aligned")
        self._words = new.counter("words", "words aligned")
        self._falls = new.counter(
            "times_fallen", "times before their predecessor, which were repaired"
        )
        self.landing = LandingMetrics(new)

    def aligned(self, words: int, *, raw: Sequence[int], bytes_read: int) -> None:
        """Count one segment; `raw` are the times as the model gave them."""
        self._segments.inc()
        self._words.inc(words)
        self._falls.inc(sum(after < before for before, after in pairwise(raw)))
        self.landing.received(bytes_read)


class AlignWorker(SegmentWorker[AlignJob, list[int]]):
    def __init__(
        self,
        settings: AlignWorkerSettings,
        prompt: ScriptMaker,
        fetcher: WindowFetcher,
        aligner: Aligner,
        passes: AlignerPass,
        metrics: AlignWorkerMetrics,
        tracer: Tracer = OFF,
    ) -> None:
        super().__init__(
            metrics,
            DeviceThread("aligner", aligner.warm_up),
            passes.run,
            max_batch=settings.max_batch_segments,
            max_requests=settings.max_requests,
        )
        self._settings = settings
        self._prompt = prompt
        self._fetcher = fetcher
        self._metrics = metrics
        self._tracer = tracer

    async def align(self, request: AlignRequest) -> AlignReply:
        """Return begin and end of each word.

        Raises Overloaded if no slot is free, WindowsMissing if the caller must have windows encoded
        again, and BadRequest if there is nothing to align or too much for one pass.
        """
        others = self.meter.in_flight
        with self.meter.request():
            try:
                script = self._checked(request, others)
            except AuricleError:
                # The caller's next attempt gets new leases.
                self._fetcher.give_back(request.windows)
                raise
            with self._tracer.span("align", request.trace, words=len(request.words)) as trace:
                return await self._align(request, script, trace)

    def _checked(self, request: AlignRequest, others: int) -> Script:
        check_keys((window.key for window in request.windows), request.tenant)
        check_place(others, self._settings.max_requests, background=request.background)
        if not request.windows or not request.words or not all(request.words):
            raise BadRequest("an alignment needs at least one window, and words that are not empty")
        if request.audio_ms < 0:
            raise BadRequest(f"audio_ms is {request.audio_ms}, expected the length of the audio")
        script = self._prompt.script(request)
        total = self._prompt.tokens(sum(window.length for window in request.windows), script)
        if total > self._settings.max_tokens:
            raise BadRequest(
                f"audio and words of {total} tokens exceed AlignWorker.max_tokens "
                f"{self._settings.max_tokens}"
            )
        return script

    async def _align(self, request: AlignRequest, script: Script, trace: str) -> AlignReply:
        began = time.monotonic()
        async with self._fetcher.pinned(request.windows) as fetched:
            read_seconds = time.monotonic() - began
            job = AlignJob(fetched.windows, script.ids, script.lead, request.audio_ms)
            with self._tracer.span("align_pass", trace):
                marks = await self._submit(job, background=request.background)
        raw = script.times_ms(marks)
        times = tuple(min(max(one, 0), request.audio_ms) for one in monotone(raw))
        self._metrics.aligned(len(request.words), raw=raw, bytes_read=fetched.bytes_read)
        return AlignReply(times, fetched.bytes_read, read_seconds)

    def _measured(self, jobs: Sequence[AlignJob], _seconds: float) -> Mapping[str, float]:
        return {"tokens": sum(job.tokens for job in jobs)}
