"""Handles align requests: admission, fetching the windows, batching, repaired times."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from auricle.align_worker.metrics import AlignWorkerMetrics
from auricle.align_worker.model import Aligner
from auricle.align_worker.passes import AlignerPass, Job
from auricle.alignment.monotone import monotone
from auricle.batcher import Batcher
from auricle.checkpoint.aligner import AlignerPrompt
from auricle.embeddings.keys import check_keys
from auricle.errors import AuricleError, BadRequest, Overloaded, ProcessFailed
from auricle.landing.fetch import WindowFetcher
from auricle.load.work_meter import WorkMeter
from auricle.messages import AlignReply, AlignRequest
from auricle.process.device_faults import end_if_sticky, is_out_of_memory
from auricle.process.tracing import OFF, Tracer
from auricle.settings import AlignWorkerSettings

log = logging.getLogger(__name__)
_BACKGROUND_SHARE = 2  # background requests may use one place in so many


class AlignWorker:
    """Aligns up to `max_requests` segments at a time; keeps no state of any session.

    Its methods must be called on one event loop; a thread of its own runs the aligner.
    """

    def __init__(
        self,
        settings: AlignWorkerSettings,
        prompt: AlignerPrompt,
        fetcher: WindowFetcher,
        aligner: Aligner,
        passes: AlignerPass,
        metrics: AlignWorkerMetrics,
        tracer: Tracer = OFF,
    ) -> None:
        self._settings = settings
        self._prompt = prompt
        self._fetcher = fetcher
        self._aligner = aligner
        self._pass = passes
        self._metrics = metrics
        self._tracer = tracer
        self.meter = WorkMeter()
        self._device_thread = ThreadPoolExecutor(1, "aligner")
        self._batcher: Batcher[Job, list[int]] = Batcher(
            self._align_batch,
            max_batch=settings.max_batch_segments,
            max_queued=settings.max_requests,
        )
        metrics.in_flight.set_function(lambda: self.meter.in_flight)
        metrics.requests_limit.set(settings.max_requests)

    async def run(self) -> None:
        """Run batches until cancelled. Raises ProcessFailed if the device is broken."""
        await self._batcher.run()

    async def answers(self) -> None:
        """Return once the aligner's thread has answered, which it does between two batches."""
        await asyncio.get_running_loop().run_in_executor(self._device_thread, time.monotonic)

    def close(self) -> None:
        """Stop the aligner's thread; what is queued there is dropped."""
        self._device_thread.shutdown(cancel_futures=True)

    async def align(self, request: AlignRequest) -> AlignReply:
        """Return when each word was said.

        Raises Overloaded if no place is free, WindowsMissing if the caller must have windows
        encoded again, and BadRequest if there is nothing to align or too much for one pass.
        """
        others = self.meter.in_flight
        with self.meter.request():
            try:
                after = self._checked(request, others)
            except AuricleError:
                # The caller's next attempt gets leases of its own.
                self._fetcher.give_back(request.windows)
                raise
            with self._tracer.span("align", request.trace, words=len(request.words)) as trace:
                return await self._align(request, after, trace)

    def _checked(self, request: AlignRequest, others: int) -> tuple[int, ...]:
        """Return the token ids after the audio of a request that can be served."""
        check_keys((window.key for window in request.windows), request.tenant)
        places = self._settings.max_requests
        room = max(1, places // _BACKGROUND_SHARE) if request.background else places
        if others >= room:
            raise Overloaded(f"{others} of {places} places are in use; try again")
        if not request.windows or not request.words or not all(request.words):
            raise BadRequest("an alignment needs at least one window, and words that are not empty")
        if request.audio_ms < 0:
            raise BadRequest(f"audio_ms is {request.audio_ms}, expected the length of the audio")
        after = self._prompt.after_audio(request.words)
        total = 1 + sum(window.length for window in request.windows) + len(after)
        if total > self._settings.max_tokens:
            raise BadRequest(
                f"audio and words of {total} tokens exceed AlignWorker.max_tokens "
                f"{self._settings.max_tokens}"
            )
        return after

    async def _align(self, request: AlignRequest, after: tuple[int, ...], trace: str) -> AlignReply:
        began = time.monotonic()
        async with self._fetcher.pinned(request.windows) as fetched:
            read_seconds = time.monotonic() - began
            job = Job(fetched.windows, after, submitted=time.monotonic())
            with self._tracer.span("align_pass", trace):
                classes = await self._batcher.submit(job, background=request.background)
        step = self._prompt.step_ms
        raw = [round(one * step) for one in classes]
        times = tuple(min(max(one, 0), request.audio_ms) for one in monotone(raw))
        self._metrics.aligned(len(request.words), raw=raw, bytes_read=fetched.bytes_read)
        return AlignReply(times, fetched.bytes_read, read_seconds)

    async def _align_batch(self, jobs: Sequence[Job]) -> list[list[int]]:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        for job in jobs:
            self.meter.waited(began - job.submitted)
        try:
            found = await loop.run_in_executor(self._device_thread, self._pass.run, jobs)
        except Exception as error:
            end_if_sticky(error, "a pass of the aligner")
            if not is_out_of_memory(error):
                await self._check_device(error)
            raise
        self.meter.did(segments=len(jobs), tokens=sum(job.tokens for job in jobs))
        self._metrics.batch_segments.observe(len(jobs))
        return found

    async def _check_device(self, error: Exception) -> None:
        """After a failed pass, align silence: if that fails too, the cause is not the job.

        Raises ProcessFailed then.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._device_thread, self._aligner.warm_up)
        except Exception as again:
            log.error("a pass failed: %s", error)
            raise ProcessFailed(f"the aligner fails on silence too: {again}") from error
