"""Handles encode requests: cache lookup, batching, encoding, storing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
from prometheus_client import CollectorRegistry

from auricle.checkpoints.geometry import Geometry
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import BadRequest, FeaturesMissing, Overloaded
from auricle.embeddings.layout import check_keys
from auricle.load.meters import WorkMeter
from auricle.process.batcher import Batcher
from auricle.process.device import DeviceThread
from auricle.process.device_faults import first_sentence, is_out_of_memory
from auricle.process.metrics import ComponentMetrics
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.recognition import (
    BlockFeatures,
    EncodeReply,
    EncodeRequest,
    WindowFeatures,
    WindowRef,
)
from auricle.workers.encode.encoder import AudioEncoder, BlockOutput
from auricle.workers.encode.passes import EncodeJob, EncoderPass, Stored, encode_silence
from auricle.workers.encode.store import EmbeddingStore, Identity, Reservation

log = logging.getLogger(__name__)


class _Encoding:
    """The future of a window's slot, and the number of requests that still need it."""

    def __init__(self, job: EncodeJob, future: asyncio.Future[Stored]) -> None:
        self.job = job
        self.future = future
        self.wanted_by = 0
        self.over = False


class SharedEncodings:
    """One encoding per window, shared by all requests for it.

    `let_go` is called for each slot once no request needs it. A job without a request is withdrawn:
    the pass skips it, or stops if it has no other job. For one event loop.
    """

    def __init__(self, let_go: Callable[[Reservation], None]) -> None:
        self._let_go = let_go
        self._running: dict[str, _Encoding] = {}

    async def wait_for_withdrawn(self, keys: Iterable[str]) -> None:
        """Wait until withdrawn encodings of these windows have ended: they cannot be joined."""
        for key in keys:
            while (encoding := self._running.get(key)) is not None and encoding.job.withdrawn:
                await asyncio.wait([encoding.future])

    @contextmanager
    def joined(
        self, jobs: Sequence[EncodeJob], submit: Callable[[EncodeJob], asyncio.Future[Stored]]
    ) -> Iterator[list[asyncio.Future[Stored]]]:
        """Yield the future of each job's slot; the slots are kept until the block ends.

        Windows that are not being encoded are submitted. Shield the futures when you await them, as
        others may await them too. Raises whatever `submit` raises.
        """
        joined: list[_Encoding] = []
        try:
            for job in jobs:
                encoding = self._running.get(job.window.key) or self._begun(job, submit(job))
                encoding.wanted_by += 1
                joined.append(encoding)
            yield [encoding.future for encoding in joined]
        finally:
            for encoding in joined:
                encoding.wanted_by -= 1
                encoding.job.withdrawn = not encoding.wanted_by
                self._release_unused(encoding)

    def _begun(self, job: EncodeJob, future: asyncio.Future[Stored]) -> _Encoding:
        key = job.window.key
        self._running[key] = encoding = _Encoding(job, future)
        future.add_done_callback(lambda _: self._end(key, encoding))
        return encoding

    def _end(self, key: str, encoding: _Encoding) -> None:
        # Later requests find the window in the slab, or encode it again.
        del self._running[key]
        encoding.over = True
        self._release_unused(encoding)

    def _release_unused(self, encoding: _Encoding) -> None:
        if not encoding.over or encoding.wanted_by:
            return
        future = encoding.future
        if future.cancelled() or future.exception() is not None:
            return
        if isinstance(stored := future.result(), Reservation):
            self._let_go(stored)


class ConvCache:
    """An LRU cache of the outputs of up to `count` finished blocks. Not thread-safe."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._outputs: OrderedDict[str, BlockOutput] = OrderedDict()

    def __len__(self) -> int:
        return len(self._outputs)

    def find(self, key: str) -> BlockOutput | None:
        """Return the block's output and mark it most recently used; None if it is not cached."""
        output = self._outputs.get(key)
        if output is not None:
            self._outputs.move_to_end(key)
        return output

    def keep(self, outputs: Iterable[tuple[str, BlockOutput]]) -> None:
        """Add outputs by block key, evicting the least recently used beyond `count`."""
        for key, output in outputs:
            self._outputs[key] = output
            self._outputs.move_to_end(key)
        while len(self._outputs) > self._count:
            self._outputs.popitem(last=False)


def check_window(window: WindowFeatures, geometry: Geometry) -> None:
    """Raise BadRequest unless the window and its blocks are well-formed."""
    if not 0 <= window.context <= geometry.context_blocks:
        raise BadRequest(
            f"a window has 0 to {geometry.context_blocks} blocks before it, got {window.context}"
        )
    limit = geometry.window_frames
    if not 0 < window.frames <= limit:
        raise BadRequest(f"a window has 1 to {limit} frames, got {window.frames}")
    for number, block in enumerate(window.blocks):
        _check_block(block, geometry, last=number + 1 == len(window.blocks))


def _check_block(block: BlockFeatures, geometry: Geometry, *, last: bool) -> None:
    whole = geometry.block_frames
    if not 0 < block.frames <= whole or (block.frames < whole and not last):
        raise BadRequest(
            f"block {block.key} has {block.frames} frames; all but a window's last have {whole}"
        )
    if block.log_mel is None:
        return
    if len(block.log_mel) != (expected := block.frames * geometry.mel_bins * 4):
        raise BadRequest(
            f"block {block.key} has {block.frames} frames but {len(block.log_mel)} bytes, "
            f"expected {expected}"
        )
    if not np.isfinite(np.frombuffer(block.log_mel, np.float32)).all():
        raise BadRequest(f"block {block.key} contains values that are not finite")


class EncodeWorkerMetrics:
    """The encode worker's own metrics; load/reporter.py has its load metrics."""

    def __init__(self, registry: CollectorRegistry, store: EmbeddingStore) -> None:
        new = ComponentMetrics(registry, "encode_worker")
        self._encoded = new.counter(
            "windows_encoded", "windows encoded, by state (whole or partial)", "state"
        )
        self.found = new.counter("windows_found", "windows found in the slab")
        self._convolved = new.counter(
            "blocks_convolved", "one-second blocks that went through the conv stack"
        )
        self._flops = new.counter(
            "flops", "floating-point operations of the encoder's matrix products"
        )
        self._batch_windows = new.histogram(
            "batch_windows", "windows per forward pass", (1, 2, 4, 8, 16, 32, 64)
        )
        self.batch_limit = new.gauge(
            "batch_limit", "windows per forward pass at most; halved once they did not fit"
        )
        self._received = new.counter(
            "received_bytes", "mel features received, by transport", "transport"
        )
        new.gauge("slots_in_use", "slab slots with content").set_function(store.slots_in_use)
        new.gauge("slots", "slab slots").set_function(store.slots)
        spoiled = new.counter("slots_spoiled", "slots evicted because their content was wrong")
        store.on_spoiled = spoiled.inc
        self.queued = new.gauge("queued_windows", "windows waiting to be encoded")
        new.gauge("open_leases", "leases neither released nor expired").set_function(
            store.open_leases
        )

    def received(self, windows: Sequence[WindowFeatures]) -> None:
        """Count the bytes of features in a request."""
        blocks = (block for window in windows for block in window.blocks)
        size = sum(len(block.log_mel) for block in blocks if block.log_mel is not None)
        self._received.labels("request_plane").inc(size)

    def batch(self, windows: Sequence[WindowFeatures], *, convolved: int, flops: int) -> None:
        """Count one forward pass: its windows, the blocks convolved for it, and its FLOPs."""
        self._batch_windows.observe(len(windows))
        self._convolved.inc(convolved)
        self._flops.inc(flops)
        for window in windows:
            self._encoded.labels("partial" if window.partial else "whole").inc()


class EncodeWorker:
    """Encodes windows behind a content-addressed cache; keeps no state of any session.

    Its methods must be called on one event loop; a thread of its own runs the encoder.
    """

    def __init__(
        self,
        settings: EncodeWorkerSettings,
        geometry: Geometry,
        encoder: AudioEncoder,
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
        self._cost = encoder.cost
        self._conv_cache = ConvCache(settings.conv_blocks)
        self._pass = EncoderPass(encoder, store, geometry)
        self._batcher: Batcher[EncodeJob, Stored] = Batcher(
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
            encoded, convolved = await self._lease(windows, leased, request, trace)
        except BaseException:
            # The caller will not read these: its next attempt gets new leases.
            self._store.give_back(leased.values())
            raise
        self._wake_reader()
        refs = tuple(leased[window.key] for window in request.windows)
        return EncodeReply(windows=refs, encoded=encoded, convolved=convolved)

    async def _lease(
        self,
        windows: Mapping[str, WindowFeatures],
        leased: dict[str, WindowRef],
        request: EncodeRequest,
        trace: str,
    ) -> tuple[int, int]:
        """Add a leased ref of each window to `leased`, also before raising.

        Returns the numbers of windows and of blocks that had to be encoded.
        """
        await self._encodings.wait_for_withdrawn(windows)
        now = time.monotonic()
        for key in windows:
            if (ref := self._store.reuse(key, self._identity, now)) is not None:
                leased[key] = ref
        todo = [window for key, window in windows.items() if key not in leased]
        self._metrics.found.inc(len(windows) - len(todo))
        self._metrics.received(request.windows)
        jobs = self._jobs(todo, trace)
        convolved = sum(output is None for job in jobs for output in job.outputs)

        def submit(job: EncodeJob) -> asyncio.Future[Stored]:
            return self._batcher.submit(job, background=request.background)

        with self._encodings.joined(jobs, submit) as futures:
            for window, future in zip(todo, futures, strict=True):
                stored = _reserved(await asyncio.shield(future))
                leased[window.key] = self._store.lease(stored, self._identity, time.monotonic())
        return len(todo), convolved

    async def _convolve_ahead(self, windows: Sequence[WindowFeatures]) -> EncodeReply:
        """Convolve finished blocks into the conv cache, at background priority."""
        for block in (block for window in windows for block in window.blocks):
            if not block.final:
                raise BadRequest(f"block {block.key} is not final: it cannot be encoded ahead")
        jobs = [replace(j, attends=False) for j in self._jobs(windows) if None in j.outputs]
        convolved = sum(output is None for job in jobs for output in job.outputs)
        await asyncio.gather(*(self._batcher.submit(job, background=True) for job in jobs))
        return EncodeReply((), encoded=0, convolved=convolved)

    def _jobs(self, windows: Sequence[WindowFeatures], trace: str = "") -> list[EncodeJob]:
        """Pair windows with their cached conv outputs. Raises FeaturesMissing."""
        found = ([self._conv_cache.find(block.key) for block in w.blocks] for w in windows)
        now = time.monotonic()
        jobs = [
            EncodeJob(window, outputs, trace=trace, submitted=now)
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

    async def _encode_batch(self, jobs: Sequence[EncodeJob]) -> Sequence[Stored]:
        began = time.monotonic()
        for job in jobs:  # blocks may have been computed since the job was submitted
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
        """Halve the batch limit, once; the batch that did not fit is run window by window."""
        if self._halved or windows == 1:
            return
        self._halved = True
        self._batcher.max_batch = max(1, windows // 2)
        self._metrics.batch_limit.set(self._batcher.max_batch)
        log.error(
            "A batch of %d windows does not fit into the device's memory (%s); batches are now "
            "limited to %d: set EncodeWorker.max_batch_windows to that",
            windows,
            first_sentence(error),
            self._batcher.max_batch,
        )


def _reserved(stored: Stored) -> Reservation:
    if isinstance(stored, Reservation):
        return stored
    if isinstance(stored, FeaturesMissing):
        raise stored
    raise Overloaded(str(stored))
