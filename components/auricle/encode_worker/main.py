"""The encode worker process, of either pool: the decoder's or the aligner's."""

from __future__ import annotations

import asyncio
import time

import torch

from auricle.checkpoint.files import open_checkpoint
from auricle.embeddings.endpoints import endpoint_over
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.embeddings.slabs import new_slab
from auricle.encode_worker.canary import warm_up
from auricle.encode_worker.encoders import cost_of, encoder_for
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.encode_worker.store import EmbeddingStore, Identity
from auricle.encode_worker.worker import EncodeWorker
from auricle.messages import EncodeRequest, Parts, RunningModel, SlabState
from auricle.process.device_faults import check_driver
from auricle.process.metrics import Registry
from auricle.process.slab_place import slab_device
from auricle.process.status import report_status
from auricle.process.tracing import Tracer
from auricle.process.transport import transfers
from auricle.runtime import Route, Runtime, report_load
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
    layout = SlabLayout(
        geometry.hidden_size, ITEM_BYTES[settings.dtype], geometry.window_embeddings
    )
    device = slab_device(
        settings.slab, settings.device if encoder.on_gpu else None, settings.component
    )
    slab = await asyncio.to_thread(new_slab, layout, settings.slots, device=device, shared=False)
    store = EmbeddingStore(slab, settings.lease_seconds)
    endpoint = endpoint_over(
        slab,
        "encode",
        on_notice=store.release,
        awaiting_notices=lambda: store.open_leases() > 0,
    )
    metadata = await asyncio.to_thread(endpoint.start)
    report_status("warming up")
    await asyncio.to_thread(warm_up, encoder, geometry, settings.max_batch_windows)
    registry = Registry(pool=settings.pool)
    tracer = Tracer(settings.component, settings.otlp_endpoint, settings.namespace)
    worker = EncodeWorker(
        settings,
        geometry,
        encoder,
        cost_of(checkpoint),
        store,
        Identity(endpoint.name, metadata, checkpoint.fingerprint, settings.dtype),
        EncodeWorkerMetrics(registry.registry, store),
        endpoint.wake,
        tracer,
    )
    try:
        runtime = Runtime(settings, "generate", registry.registry)
        runtime.add_metrics((settings.pool, "generate"), registry.text)
        moves = transfers(endpoint.backends, on_device=slab.on_device)
        model = RunningModel(checkpoint.fingerprint, settings.dtype)
        runtime.tasks.start(worker.run(), "batcher")
        runtime.tasks.start(endpoint.watch(), "NIXL")
        runtime.liveness.part("the encoder", worker.device.answers)
        runtime.liveness.part("NIXL", endpoint.answers)
        runtime.tasks.start(_expire_leases(store), "lease expiry")
        load, drain = report_load(
            *(runtime, settings, settings.pool, worker.meter, registry.registry),
            slots=settings.max_queued_windows,
            held=lambda: store.open_leases() + worker.meter.in_flight,
        )
        runtime.description.parts = lambda: Parts(
            model=model,
            slab=SlabState(store.slots(), store.slots_in_use(), store.slots_leased()),
            transfers=moves,
            load=load.now("requests"),
        )
        await runtime.serve(
            settings.pool,
            [Route("generate", EncodeRequest, unary=worker.encode)],
            drain=drain,
        )
    finally:
        worker.device.close()
        await asyncio.to_thread(tracer.close)
        endpoint.close()


async def _expire_leases(store: EmbeddingStore) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_SECONDS)
        store.expire(time.monotonic())
