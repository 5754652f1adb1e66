"""Handles encode requests: cache lookup, batching, encoding, storing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from auricle.batcher import Batcher
from auricle.checkpoint.geometry import Geometry
from auricle.embeddings.keys import check_keys
from auricle.encode_worker.canary import encode_silence
from auricle.encode_worker.checks import check_window
from auricle.encode_worker.conv_cache import ConvCache
from auricle.encode_worker.cost import PassCost
from auricle.encode_worker.encoder import AudioEncoder, Unwanted
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.encode_worker.passes import EncoderPass, Job, Stored
from auricle.encode_worker.shared import SharedEncodings
from auricle.encode_worker.store import EmbeddingStore, Identity, Reservation
from auricle.errors import BadRequest, FeaturesMissing, Overloaded
from auricle.load.work_meter import WorkMeter
from auricle.messages.encoding import EncodeReply, EncodeRequest, WindowFeatures, WindowRef
from auricle.process.device_faults import first_sentence, is_out_of_memory
from auricle.process.device_thread import DeviceThread
from auricle.process.tracing import OFF, Tracer
from auricle.settings import EncodeWorkerSettings

log = logging.getLogger(__name__)


class EncodeWorker:
    """Encodes windows behind a content-addressed cache; keeps no state of any session.

    Its methods must be called on one event loop; a thread of its own runs the encoder.
    """

    def __init__(
        self,
        settings: EncodeWorkerSettings,
        geometry: Geometry,
        encoder: AudioEncoder,
        cost: PassCost,
        store: EmbeddingStore,
        identity: Identity,
        metrics: EncodeWorkerMetrics,
        wake_reader: Callable[[], None],
        tracer: Tracer = OFF,
    ) -> None:
        self.meter = WorkMeter()
        self._geometry = geometry
        self._store = store
        self._identity = identity
        self._metrics = metrics
        self._tracer = tracer
        metrics.queued.set_function(lambda: self.queued)
        self._wake_reader = wake_reader
        self.device = DeviceThread("encoder", partial(encode_silence, encoder, geometry))
        self._cost = cost
        self._conv_cache = ConvCache(settings.conv_blocks)
        self._pass = EncoderPass(encoder, store, geometry)
        self._batcher: Batcher[Job, Stored] = Batcher(
            self._encode_batch,
            max_batch=settings.max_batch_windows,
            max_queued=settings.max_queued_windows,
        )
        self._halved = False  # batches, as they did not fit into the device's memory
        metrics.batch_limit.set(settings.max_batch_windows)
        self._encodings = SharedEncodings(store.let_go)

    async def run(self) -> None:
        """Run batches until cancelled. Raises ProcessFailed if the device is broken."""
        await self._batcher.run()

    @property
    def queued(self) -> int:
        """Number of windows waiting to be encoded."""
        return len(self._batcher)

    async def encode(self, request: EncodeRequest) -> EncodeReply:
        """Encode the windows not stored yet and return leased refs in the request's order.

        Raises BadRequest if the request is malformed, FeaturesMissing if it lacks features of
        blocks that are not cached, Overloaded if queue or slab is full, and WorkerUnavailable if
        the device has failed.
        """
        windows = len(request.windows)
        span = self._tracer.span("encode", request.trace, windows=windows)
        with span as trace, self.meter.request():
            return await self._encode(request, trace)

    async def _encode(self, request: EncodeRequest, trace: str) -> EncodeReply:
        for window in request.windows:
            check_keys(window.keys(), request.tenant)
            check_window(window, self._geometry)
        self._store.evict(request.spoiled, self._identity.agent)
        if request.ahead:
            return await self._convolve_ahead(request.windows)
        # Once each: keys carry no position, so two windows of digital silence have one key.
        windows = {window.key: window for window in request.windows}
        leased: dict[str, WindowRef] = {}
        try:
            encoded, convolved = await self._leased(windows, leased, request, trace)
        except BaseException:
            # Nobody will read these: the caller's next attempt gets leases of its own.
            self._store.give_back(leased.values())
            raise
        self._wake_reader()
        refs = tuple(leased[window.key] for window in request.windows)
        return EncodeReply(windows=refs, encoded=encoded, convolved=convolved)

    async def _leased(
        self,
        windows: Mapping[str, WindowFeatures],
        leased: dict[str, WindowRef],
        request: EncodeRequest,
        trace: str,
    ) -> tuple[int, int]:
        """As `_lease`, once more if an encoding that this request joined was being stopped."""
        while True:
            try:
                return await self._lease(windows, leased, request, trace)
            except Unwanted:
                await asyncio.sleep(0)  # it is forgotten meanwhile

    async def _lease(
        self,
        windows: Mapping[str, WindowFeatures],
        leased: dict[str, WindowRef],
        request: EncodeRequest,
        trace: str,
    ) -> tuple[int, int]:
        """Add a leased ref of each window to `leased`, even if this raises later.

        Returns how many windows and how many blocks had to be encoded.
        """
        now = time.monotonic()
        for key in [key for key in windows if key not in leased]:
            if (ref := self._store.reuse(key, self._identity, now)) is not None:
                leased[key] = ref
        todo = [window for key, window in windows.items() if key not in leased]
        self._metrics.found.inc(len(windows) - len(todo))
        self._metrics.received(request.windows)
        jobs = self._jobs(todo, trace)
        convolved = sum(output is None for job in jobs for output in job.outputs)

        def submit(job: Job) -> asyncio.Future[Stored]:
            return self._batcher.submit(job, background=request.background)

        with self._encodings.joined(jobs, submit) as futures:
            for window, future in zip(todo, futures, strict=True):
                # Shielded, because another request may await the same encoding.
                stored = _reserved(await asyncio.shield(future))
                leased[window.key] = self._store.lease(stored, self._identity, time.monotonic())
        return len(todo), convolved

    async def _convolve_ahead(self, windows: Sequence[WindowFeatures]) -> EncodeReply:
        """Convolve finished blocks into the conv cache, at background priority."""
        for block in (block for window in windows for block in window.blocks):
            if not block.final:
                raise BadRequest(f"block {block.key} may still change: it cannot be encoded ahead")
        jobs = [replace(j, attends=False) for j in self._jobs(windows) if None in j.outputs]
        convolved = sum(output is None for job in jobs for output in job.outputs)
        await asyncio.gather(*(self._batcher.submit(job, background=True) for job in jobs))
        return EncodeReply((), encoded=0, convolved=convolved)

    def _jobs(self, windows: Sequence[WindowFeatures], trace: str = "") -> list[Job]:
        """Pair windows with their cached conv outputs. Raises FeaturesMissing."""
        found = ([self._conv_cache.find(block.key) for block in w.blocks] for w in windows)
        now = time.monotonic()
        jobs = [
            Job(window, outputs, trace=trace, submitted=now)
            for window, outputs in zip(windows, found, strict=True)
        ]
        sent = {b.key for w in windows for b in w.blocks if b.log_mel is not None}
        missing = tuple(
            block.key
            for job in jobs
            for block, output in zip(job.window.blocks, job.outputs, strict=True)
            if output is None and block.key not in sent
        )
        if missing:
            raise FeaturesMissing(missing)
        return jobs

    async def _encode_batch(self, jobs: Sequence[Job]) -> Sequence[Stored]:
        began = time.monotonic()
        for job in jobs:  # an earlier window of its request may have brought what it lacks
            job.find(self._conv_cache.find)
        try:
            passed = await self.device.run(self._pass.run, jobs)
        except Exception as error:
            if is_out_of_memory(error):
                self._halve_batches(len(jobs), error)
            raise
        ended = time.monotonic()
        for job in jobs:
            self.meter.waited(began - job.submitted)
            self._tracer.record("encode_queue", job.trace, job.submitted, began)
            self._tracer.record("encode_pass", job.trace, began, ended)
        frames = {b.key: b.frames for job in jobs for b in job.window.blocks}
        final = {b.key for job in jobs for b in job.window.blocks if b.final}
        self._conv_cache.keep((key, out) for key, out in passed.convolved.items() if key in final)
        windows = [
            job.window
            for job, stored in zip(jobs, passed.stored, strict=True)
            if isinstance(stored, Reservation)
        ]
        flops = self._cost.convs([frames[key] for key in passed.convolved]) + sum(
            self._cost.window(self._geometry.embeddings(w.frames)) for w in windows
        )
        self._metrics.batch(windows, convolved=len(passed.convolved), flops=flops)
        self.meter.did(windows=len(windows), gflops=flops / 1e9)
        return passed.stored

    def _halve_batches(self, windows: int, error: Exception) -> None:
        """Make batches smaller, once; the batch that did not fit is run window by window."""
        if self._halved or windows == 1:
            return
        self._halved = True
        self._batcher.max_batch = max(1, windows // 2)
        self._metrics.batch_limit.set(self._batcher.max_batch)
        log.error(
            "a batch of %d windows does not fit into the device's memory (%s); from now on batches "
            "have at most %d: set EncodeWorker.max_batch_windows to that",
            *(windows, first_sentence(error), self._batcher.max_batch),
        )


def _reserved(stored: Stored) -> Reservation:
    """Return the slot of a window that was encoded. Raises why there is none for it."""
    if isinstance(stored, Reservation):
        return stored
    if isinstance(stored, FeaturesMissing | Unwanted):
        raise stored
    raise Overloaded(str(stored))
