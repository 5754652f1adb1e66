"""One encode request's way through the encode worker: look up, batch, encode, store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from auricle.audio.mel import BINS
from auricle.checkpoint.geometry import Geometry
from auricle.encode_worker.batcher import Batcher
from auricle.encode_worker.conv_cache import ConvCache
from auricle.encode_worker.cost import EncoderCost
from auricle.encode_worker.encoder import Encoder, MelBlock
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.encode_worker.store import EmbeddingStore, Identity
from auricle.errors import AuricleError, BadRequest, FeaturesMissing
from auricle.messages import (
    BlockFeatures,
    EncodeReply,
    EncodeRequest,
    WindowFeatures,
    WindowRef,
)
from auricle.settings import EncodeWorkerSettings
from auricle.tracing import OFF, Tracer
from auricle.work_meter import WorkMeter

Payload = npt.NDArray[np.uint8]
_NOTHING = np.zeros(0, np.uint8)


@dataclass(frozen=True)
class _Job:
    """A window and, for each of its blocks, the conv output if it is here.

    One that does not attend is for the conv stack only.
    """

    window: WindowFeatures
    outputs: list[torch.Tensor | None]
    attends: bool = True
    trace: str = ""
    submitted: float = 0.0  # monotonic


class EncodeWorker:
    """A pure function of window features, with a content-addressed cache in front."""

    def __init__(
        self,
        settings: EncodeWorkerSettings,
        geometry: Geometry,
        encoder: Encoder,
        cost: EncoderCost,
        store: EmbeddingStore,
        identity: Identity,
        metrics: EncodeWorkerMetrics,
        wake_reader: Callable[[], None],
        tracer: Tracer = OFF,
    ) -> None:
        self.meter = WorkMeter()
        self._geometry = geometry
        self._encoder = encoder
        self._store = store
        self._identity = identity
        self._metrics = metrics
        self._tracer = tracer
        metrics.queued.set_function(lambda: self.queued)
        self._wake_reader = wake_reader
        self._device_thread = ThreadPoolExecutor(1, "encoder")
        self._cost = cost
        self._conv_cache = ConvCache(settings.conv_blocks)
        self._batcher: Batcher[_Job, Payload] = Batcher(
            self._encode_batch,
            max_batch=settings.max_batch_windows,
            max_queued=settings.max_queued_windows,
        )
        # Two sessions asking for the same window at the same time share one encoding.
        self._encoding: dict[str, asyncio.Future[Payload]] = {}

    async def run(self) -> None:
        """The batching loop; its owner cancels it."""
        await self._batcher.run()

    @property
    def queued(self) -> int:
        """Windows waiting."""
        return len(self._batcher)

    def close(self) -> None:
        """Stop the encoder's thread."""
        self._device_thread.shutdown(cancel_futures=True)

    async def encode(self, request: EncodeRequest) -> EncodeReply:
        """Leased refs in the order of the request. Raises BadRequest, Overloaded."""
        windows = len(request.windows)
        span = self._tracer.span("encode", request.trace, windows=windows)
        with span as trace, self.meter.request():
            return await self._encode(request, trace)

    async def _encode(self, request: EncodeRequest, trace: str) -> EncodeReply:
        for window in request.windows:
            self._check(window)
        if request.ahead:
            return await self._convolve_ahead(request.windows)
        now = time.monotonic()
        found = [self._store.reuse(w.key, self._identity, now) for w in request.windows]
        todo = [w for w, ref in zip(request.windows, found, strict=True) if ref is None]
        self._metrics.found.inc(len(request.windows) - len(todo))
        self._metrics.received(request.windows)
        jobs = self._jobs(todo, trace)
        convolved = sum(output is None for job in jobs for output in job.outputs)
        futures = [self._submit(job, background=request.background) for job in jobs]
        fresh: dict[str, WindowRef] = {}
        for window, future in zip(todo, futures, strict=True):
            # Shielded: another request may be waiting for the same encoding.
            fresh[window.key] = self._keep(window, await asyncio.shield(future))
        self._wake_reader()
        refs = tuple(
            ref if ref is not None else fresh[w.key]
            for w, ref in zip(request.windows, found, strict=True)
        )
        return EncodeReply(windows=refs, encoded=len(todo), convolved=convolved)

    async def _convolve_ahead(self, windows: Sequence[WindowFeatures]) -> EncodeReply:
        """Blocks into the conv cache, behind whatever somebody waits for."""
        for block in (block for window in windows for block in window.blocks):
            if not block.final:
                raise BadRequest(f"block {block.key} may still change: it cannot come ahead")
        jobs = [replace(j, attends=False) for j in self._jobs(windows) if None in j.outputs]
        convolved = sum(output is None for job in jobs for output in job.outputs)
        await asyncio.gather(*(self._batcher.submit(job, background=True) for job in jobs))
        return EncodeReply((), encoded=0, convolved=convolved)

    def _check(self, window: WindowFeatures) -> None:
        limit = self._geometry.window_frames
        if not 0 < window.frames <= limit:
            raise BadRequest(f"a window has 1 to {limit} frames, got {window.frames}")
        _check_key(window.key)
        for number, block in enumerate(window.blocks):
            self._check_block(block, last=number + 1 == len(window.blocks))

    def _check_block(self, block: BlockFeatures, *, last: bool) -> None:
        _check_key(block.key)
        chunk = self._geometry.chunk_frames
        if not 0 < block.frames <= chunk or (block.frames < chunk and not last):
            raise BadRequest(
                f"block {block.key} has {block.frames} frames; all but a window's last have {chunk}"
            )
        if block.log_mel is None:
            return
        if len(block.log_mel) != block.frames * BINS * 4:
            raise BadRequest(
                f"block {block.key} says {block.frames} frames but carries "
                f"{len(block.log_mel)} bytes, expected {block.frames * BINS * 4}"
            )
        if not np.isfinite(np.frombuffer(block.log_mel, np.float32)).all():
            raise BadRequest(f"block {block.key} contains values that are not finite")

    def _jobs(self, windows: Sequence[WindowFeatures], trace: str = "") -> list[_Job]:
        """Windows with the conv outputs that are here; raises FeaturesMissing."""
        found = ([self._conv_cache.find(block.key) for block in w.blocks] for w in windows)
        now = time.monotonic()
        jobs = [
            _Job(window, outputs, trace=trace, submitted=now)
            for window, outputs in zip(windows, found, strict=True)
        ]
        missing = tuple(
            block.key
            for job in jobs
            for block, output in zip(job.window.blocks, job.outputs, strict=True)
            if output is None and block.log_mel is None
        )
        if missing:
            raise FeaturesMissing(missing)
        return jobs

    def _submit(self, job: _Job, *, background: bool) -> asyncio.Future[Payload]:
        key = job.window.key
        if (running := self._encoding.get(key)) is not None:
            return running
        future = self._batcher.submit(job, background=background)
        self._encoding[key] = future
        future.add_done_callback(lambda _: self._encoding.pop(key, None))
        return future

    def _keep(self, window: WindowFeatures, payload: Payload) -> WindowRef:
        now = time.monotonic()
        if window.supersedes is not None:
            self._store.supersede(window.supersedes)
        # Another waiter of the same encoding may have stored it first.
        ref = self._store.reuse(window.key, self._identity, now)
        if ref is not None:
            return ref
        return self._store.put(
            window.key,
            payload,
            self._geometry.embeddings(window.frames),
            partial=window.partial,
            identity=self._identity,
            now=now,
        )

    async def _encode_batch(self, jobs: Sequence[_Job]) -> Sequence[Payload]:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        payloads, convolved = await loop.run_in_executor(self._device_thread, self._forward, jobs)
        ended = time.monotonic()
        for job in jobs:
            self.meter.waited(began - job.submitted)
            self._tracer.record("encode_queue", job.trace, job.submitted, began)
            self._tracer.record("encode_pass", job.trace, began, ended)
        frames = {b.key: b.frames for job in jobs for b in job.window.blocks}
        final = {b.key for job in jobs for b in job.window.blocks if b.final}
        self._conv_cache.keep((key, out) for key, out in convolved.items() if key in final)
        windows = [job.window for job in jobs if job.attends]
        flops = self._cost.convs([frames[key] for key in convolved]) + sum(
            self._cost.window(self._geometry.embeddings(w.frames)) for w in windows
        )
        self._metrics.batch(windows, convolved=len(convolved), flops=flops)
        self.meter.did(windows=len(windows), gflops=flops / 1e9)
        return payloads

    def _forward(self, jobs: Sequence[_Job]) -> tuple[list[Payload], dict[str, torch.Tensor]]:
        """In the encoder's thread: new blocks convolved once, then all windows in one pass."""
        new = {
            block.key: MelBlock(
                np.frombuffer(block.log_mel, np.float32).reshape(block.frames, BINS),
                job.window.floor,
            )
            for job in jobs
            for block, output in zip(job.window.blocks, job.outputs, strict=True)
            if output is None and block.log_mel is not None
        }
        convolved: dict[str, torch.Tensor] = {}
        if new:
            convolved = dict(zip(new, self._encoder.convolve(list(new.values())), strict=True))
        windows = [
            [
                convolved[block.key] if output is None else output
                for block, output in zip(job.window.blocks, job.outputs, strict=True)
            ]
            for job in jobs
            if job.attends
        ]
        attended = iter(self._encoder.attend(windows) if windows else ())
        return [_payload(next(attended)) if j.attends else _NOTHING for j in jobs], convolved


def _payload(embeddings: torch.Tensor) -> Payload:
    if not torch.isfinite(embeddings).all():
        raise AuricleError("the encoder produced values that are not finite")
    flat: Payload = embeddings.contiguous().cpu().view(torch.uint8).numpy().reshape(-1)
    return flat


def _check_key(key: str) -> None:
    if len(key) != 32 or not _is_hex(key):
        raise BadRequest(f"key {key!r} is not 32 hex digits")


def _is_hex(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True
