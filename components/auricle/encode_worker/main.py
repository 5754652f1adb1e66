"""The encode worker process, of either pool: the decoder's or the aligner's."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial

import torch

from auricle.checkpoint.files import open_checkpoint
from auricle.embeddings.endpoints import endpoint_over
from auricle.embeddings.slabs import new_slab
from auricle.encode_worker.canary import warm_up
from auricle.encode_worker.encoders import cost_of, encoder_for
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.encode_worker.store import EmbeddingStore, Identity
from auricle.encode_worker.worker import EncodeWorker
from auricle.messages.diagnosis import RunningModel
from auricle.messages.encoding import EncodeRequest
from auricle.process.device_faults import check_driver
from auricle.process.metrics import Registry
from auricle.process.slab_place import slab_device, slab_layout
from auricle.process.status import report_status
from auricle.process.tracing import traced
from auricle.process.transport import transfers
from auricle.runtime import Part, WorkerService, serve_worker
from auricle.settings import EncodeWorkerSettings

_EXPIRE_SECONDS = 1.0


async def run(settings: EncodeWorkerSettings) -> None:
    """Serve encode requests until the process is told to stop and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    if settings.device.startswith("cuda"):
        check_driver(torch.version.cuda, settings.component)
    report_status(f"loading the audio encoder in {settings.dtype}")
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.checkpoint)
    geometry = checkpoint.geometry
    encoder = await asyncio.to_thread(encoder_for, checkpoint, settings)
    gpu = settings.device if encoder.on_gpu else None
    device = slab_device(settings.slab, gpu, settings.component)
    layout = slab_layout(geometry, settings.dtype)
    slab = await asyncio.to_thread(new_slab, layout, settings.slots, device=device, shared=False)
    store = EmbeddingStore(slab, settings.lease_seconds)
    endpoint = endpoint_over(
        slab,
        "encode",
        on_notice=store.release,
        awaiting_notices=lambda: store.open_leases() > 0,
    )
    registry = Registry(pool=settings.pool)
    async with AsyncExitStack() as stack:
        stack.callback(endpoint.close)
        metadata = await asyncio.to_thread(endpoint.start)
        report_status("warming up")
        await asyncio.to_thread(warm_up, encoder, geometry, settings.max_batch_windows)
        worker = EncodeWorker(
            settings,
            geometry,
            encoder,
            cost_of(checkpoint),
            store,
            Identity(endpoint.name, metadata, checkpoint.fingerprint, settings.dtype),
            EncodeWorkerMetrics(registry.registry, store),
            endpoint.wake,
            await stack.enter_async_context(traced(settings.component, settings)),
        )
        stack.callback(worker.device.close)
        service = WorkerService(
            pool=settings.pool,
            request=EncodeRequest,
            handler=worker.encode,
            meter=worker.meter,
            slots=settings.max_queued_windows,
            unit="requests",
            model=RunningModel(checkpoint.fingerprint, settings.dtype),
            parts=(
                Part("the encoder", worker.run, worker.device.answers),
                Part("NIXL", endpoint.watch, endpoint.answers),
                Part("lease expiry", partial(_expire_leases, store)),
            ),
            slab=store.state,
            transfers=transfers(endpoint.backends, on_device=slab.on_device),
            held=lambda: store.open_leases() + worker.meter.in_flight,
        )
        await serve_worker(settings, registry, service)


async def _expire_leases(store: EmbeddingStore) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_SECONDS)
        store.expire(time.monotonic())
