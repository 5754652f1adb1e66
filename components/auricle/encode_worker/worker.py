"""One encode request's way through the encode worker: look up, batch, encode, store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch

from auricle.audio.mel import BINS
from auricle.checkpoint.geometry import Geometry
from auricle.encode_worker.batcher import Batcher
from auricle.encode_worker.encoder import Encoder, MelWindow
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.encode_worker.store import EmbeddingStore, Identity
from auricle.errors import AuricleError, BadRequest
from auricle.messages import EncodeReply, EncodeRequest, WindowFeatures, WindowRef
from auricle.settings import EncodeWorkerSettings

Payload = npt.NDArray[np.uint8]


class EncodeWorker:
    """A pure function of window features, with a content-addressed cache in front."""

    def __init__(
        self,
        settings: EncodeWorkerSettings,
        geometry: Geometry,
        encoder: Encoder,
        store: EmbeddingStore,
        identity: Identity,
        metrics: EncodeWorkerMetrics,
        wake_reader: Callable[[], None],
    ) -> None:
        self._geometry = geometry
        self._encoder = encoder
        self._store = store
        self._identity = identity
        self._metrics = metrics
        self._wake_reader = wake_reader
        self._device_thread = ThreadPoolExecutor(1, "encoder")
        self._batcher: Batcher[WindowFeatures, Payload] = Batcher(
            self._encode_batch,
            max_batch=settings.max_batch_windows,
            max_queued=settings.max_queued_windows,
        )
        # Two sessions asking for the same window at the same time share one encoding.
        self._encoding: dict[str, asyncio.Future[Payload]] = {}

    async def run(self) -> None:
        """The batching loop; its owner cancels it."""
        await self._batcher.run()

    def close(self) -> None:
        """Stop the encoder's thread."""
        self._device_thread.shutdown(cancel_futures=True)

    async def encode(self, request: EncodeRequest) -> EncodeReply:
        """Leased refs in the order of the request. Raises BadRequest, Overloaded."""
        for window in request.windows:
            self._check(window)
        now = time.monotonic()
        found = [self._store.reuse(w.key, self._identity, now) for w in request.windows]
        todo = [w for w, ref in zip(request.windows, found, strict=True) if ref is None]
        self._metrics.found.inc(len(request.windows) - len(todo))
        futures = [self._submit(window) for window in todo]
        fresh: dict[str, WindowRef] = {}
        for window, future in zip(todo, futures, strict=True):
            # Shielded: another request may be waiting for the same encoding.
            fresh[window.key] = self._keep(window, await asyncio.shield(future))
        self._wake_reader()
        refs = tuple(
            ref if ref is not None else fresh[w.key]
            for w, ref in zip(request.windows, found, strict=True)
        )
        return EncodeReply(windows=refs, encoded=len(todo))

    def _check(self, window: WindowFeatures) -> None:
        limit = self._geometry.window_frames
        if not 0 < window.frames <= limit:
            raise BadRequest(f"a window has 1 to {limit} frames, got {window.frames}")
        if len(window.log_mel) != window.frames * BINS * 4:
            raise BadRequest(
                f"window {window.key} says {window.frames} frames but carries "
                f"{len(window.log_mel)} bytes, expected {window.frames * BINS * 4}"
            )
        if len(window.key) != 32 or not _is_hex(window.key):
            raise BadRequest(f"window key {window.key!r} is not 32 hex digits")
        if not np.isfinite(np.frombuffer(window.log_mel, np.float32)).all():
            raise BadRequest(f"window {window.key} contains values that are not finite")

    def _submit(self, window: WindowFeatures) -> asyncio.Future[Payload]:
        if (running := self._encoding.get(window.key)) is not None:
            return running
        future = self._batcher.submit(window)
        self._encoding[window.key] = future
        future.add_done_callback(lambda _: self._encoding.pop(window.key, None))
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

    async def _encode_batch(self, windows: Sequence[WindowFeatures]) -> Sequence[Payload]:
        loop = asyncio.get_running_loop()
        payloads = await loop.run_in_executor(self._device_thread, self._forward, windows)
        self._metrics.batch_windows.observe(len(windows))
        for window in windows:
            self._metrics.encoded.labels("partial" if window.partial else "whole").inc()
        return payloads

    def _forward(self, windows: Sequence[WindowFeatures]) -> list[Payload]:
        """In the encoder's thread."""
        inputs = [
            MelWindow(np.frombuffer(w.log_mel, np.float32).reshape(w.frames, BINS), w.floor)
            for w in windows
        ]
        payloads = []
        for embeddings in self._encoder.encode(inputs):
            if not torch.isfinite(embeddings).all():
                raise AuricleError("the encoder produced values that are not finite")
            flat = embeddings.contiguous().cpu().view(torch.uint8).numpy().reshape(-1)
            payloads.append(flat)
        return payloads


def _is_hex(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True
