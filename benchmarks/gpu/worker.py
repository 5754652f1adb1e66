"""One encode worker without the network: batching, conv cache, encoder, slab.

Whole windows are sent in a closed loop with a given concurrency. Growing windows are sent as in a
live session: each request has 640 ms more, and final blocks are not sent again.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry

from auricle.audio.constants import BINS
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.aio import cancelled
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.protocol.recognition import BlockFeatures, EncodeRequest, WindowFeatures
from auricle.workers.encode.store import EmbeddingStore, Identity
from auricle.workers.encode.windowed import WindowedEncoder
from auricle.workers.encode.worker import EncodeWorker, EncodeWorkerMetrics
from benchmarks.gpu.found import Found, Task
from benchmarks.prepared import checkpoint as prepared

_SLOTS = 1024
_LEASE_SECONDS = 0.05  # embeddings are not read here
_FLOOR = -6.0
_CHUNK_FRAMES = 64  # of a live session's cadence, 640 ms
_TENANT = "benchmark"
_MARK = tenant_mark(_TENANT)


@asynccontextmanager
async def working(
    checkpoint: ModelCheckpoint, dtype: str, device: str, most_windows: int
) -> AsyncIterator[EncodeWorker]:
    """Yield a worker that has warmed up, with batches of up to `most_windows`."""
    geometry = checkpoint.geometry
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES[dtype], geometry.window_embeddings)
    store = EmbeddingStore(HostSlab.private(layout, _SLOTS), _LEASE_SECONDS)
    settings = EncodeWorkerSettings(dtype=dtype, device=device, max_batch_windows=most_windows)
    encoder = await asyncio.to_thread(WindowedEncoder, checkpoint, dtype, device, settings.threads)
    worker = EncodeWorker(
        settings, geometry, encoder, store,
        Identity("none", b"", checkpoint.fingerprint, dtype),
        EncodeWorkerMetrics(CollectorRegistry(), store), lambda: None,
    )  # fmt: skip
    loop = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await cancelled([loop])
        worker.device.close()


class Speech:
    """Features that are in no cache: equal values with new keys."""

    def __init__(self, window_frames: int, block_frames: int) -> None:
        values = np.random.default_rng(0).uniform(-8, 2, (window_frames, BINS))
        self.values = values.astype(np.float32)
        self._block = block_frames

    def whole(self) -> WindowFeatures:
        """Return a finished window."""
        return self._window(uuid.uuid4().hex, len(self.values), set(), None)

    def growing(self) -> list[WindowFeatures]:
        """Yield one window at each of its chunks; a final block is sent once."""
        name, sent = uuid.uuid4().hex, set[str]()
        ends = [*range(_CHUNK_FRAMES, len(self.values), _CHUNK_FRAMES), len(self.values)]
        windows, before = [], None
        for end in ends:
            windows.append(self._window(name, end, sent, before))
            before = windows[-1].key
        return windows

    def _window(self, name: str, end: int, sent: set[str], before: str | None) -> WindowFeatures:
        blocks = []
        for number, at in enumerate(range(0, end, self._block)):
            values = self.values[at : min(at + self._block, end)]
            final = len(values) == self._block
            key = name[:24] + f"{number:04x}{0 if final else end:04x}" + _MARK
            data = None if key in sent else values.tobytes()
            blocks.append(BlockFeatures(key, len(values), final, data))
            if final:
                sent.add(key)
        key = name[:24] + f"{end:08x}" + _MARK
        partial = end < len(self.values)
        return WindowFeatures(key, _FLOOR, tuple(blocks), partial, supersedes=before)


async def _closed_loop(
    clients: int, seconds: float, once: Callable[[], Awaitable[int]]
) -> tuple[float, list[float]]:
    """Return requests per second, and the seconds of each, of that many concurrent clients."""
    end, took = time.monotonic() + seconds, list[float]()
    began = time.monotonic()

    async def client() -> None:
        while (start := time.monotonic()) < end:
            requests = await once()
            took.extend([(time.monotonic() - start) / requests] * requests)

    await asyncio.gather(*(client() for _ in range(clients)))
    return len(took) / (time.monotonic() - began), took


async def closed_loops(
    model: Path, dtype: str, device: str, seconds: float, in_flight: Sequence[int]
) -> dict[str, float]:
    """Return rates and times, by the number of requests in flight."""
    checkpoint = open_checkpoint(model)
    geometry = checkpoint.geometry
    speech, found = Speech(geometry.window_frames, geometry.block_frames), dict[str, float]()
    async with working(checkpoint, dtype, device, max(in_flight)) as worker:

        async def whole() -> int:
            await worker.encode(EncodeRequest("s", _TENANT, (speech.whole(),)))
            return 1

        async def growing() -> int:
            windows = speech.growing()
            for window in windows:
                await worker.encode(EncodeRequest("s", _TENANT, (window,)))
            return len(windows)

        for clients, (name, once) in itertools.product(
            in_flight, (("windows", whole), ("chunks", growing))
        ):
            await _closed_loop(clients, min(1.0, seconds), once)
            rate, took = await _closed_loop(clients, seconds, once)
            found[f"{name}_per_s_{clients}"] = rate
            for share in (50, 99):
                found[f"{name}_p{share}_ms_{clients}"] = 1000 * float(np.percentile(took, share))
    return found


def measure(task: Task) -> Found:
    """Measure all numbers of requests in flight; figures are of the largest."""
    scale, found = task.scale, Found()
    rows = asyncio.run(
        closed_loops(
            prepared(scale.checkpoint), task.dtype, task.device, scale.seconds / 2, scale.requests
        )
    )
    found.details["worker"] = rows
    most = scale.requests[-1]
    found.put("worker_windows_per_s", rows[f"windows_per_s_{most}"])
    found.put("worker_chunks_per_s", rows[f"chunks_per_s_{most}"])
    found.put("worker_chunk_p99_ms", rows[f"chunks_p99_ms_{most}"])
    return found
