"""The align worker process."""

from __future__ import annotations

import asyncio
from typing import Final

import torch

from auricle.align_worker.aligners import Aligner, aligner_for
from auricle.align_worker.metrics import AlignWorkerMetrics
from auricle.align_worker.passes import AlignerPass
from auricle.align_worker.scripts import prompt_for
from auricle.align_worker.worker import AlignWorker
from auricle.checkpoint.files import Checkpoint, open_checkpoint
from auricle.embeddings.endpoints import endpoint_over
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab
from auricle.errors import SettingsError
from auricle.landing.fetch import WindowFetcher
from auricle.messages import AlignRequest, Parts, RunningModel, SlabState
from auricle.process.device_faults import check_driver
from auricle.process.metrics import Registry
from auricle.process.slab_place import slab_device
from auricle.process.status import report_status
from auricle.process.torch_modules import DTYPES
from auricle.process.tracing import Tracer
from auricle.process.transport import transfers
from auricle.runtime import Route, Runtime, report_load
from auricle.settings import AlignWorkerSettings

_NAME: Final = "align_worker"
_ENDPOINT = "generate"


async def run(settings: AlignWorkerSettings) -> None:
    """Serve align requests until the process is told to stop and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    if settings.device.startswith("cuda"):
        check_driver(torch.version.cuda, "AlignWorker")
    report_status("loading the aligner")
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.checkpoint)
    _check_length(settings, checkpoint)
    prompt = prompt_for(checkpoint)
    aligner = await asyncio.to_thread(
        aligner_for, checkpoint, settings.dtype, settings.device, settings.threads
    )
    slab = await _landing_slab(settings, checkpoint, aligner)
    endpoint = endpoint_over(slab, "align")
    await asyncio.to_thread(endpoint.start)
    report_status("warming up")
    await asyncio.to_thread(aligner.warm_up)
    registry = Registry()
    metrics = AlignWorkerMetrics(registry.registry)
    fetcher = WindowFetcher(
        slab,
        endpoint,
        fingerprint=checkpoint.fingerprint,
        dtype=settings.dtype,
        deadline_seconds=settings.read_deadline_seconds,
        on_read=metrics.read_seconds.observe,
    )
    table = fetcher.table
    metrics.slots.set(settings.landing_slots)
    metrics.slots_in_use.set_function(lambda: table.in_use)
    tracer = Tracer("AlignWorker", settings.otlp_endpoint, settings.namespace)
    passes = AlignerPass(aligner, slab, DTYPES[settings.dtype], settings.max_batch_tokens)
    worker = AlignWorker(settings, prompt, fetcher, aligner, passes, metrics, tracer)
    try:
        runtime = Runtime(settings, _ENDPOINT, registry.registry)
        runtime.add_metrics((_NAME, _ENDPOINT), registry.text)
        moves = transfers(endpoint.backends, on_device=slab.on_device)
        model = RunningModel(checkpoint.fingerprint, settings.dtype)
        runtime.description.parts = lambda: Parts(
            model=model,
            slab=SlabState(table.count, table.in_use, table.pinned),
            transfers=moves,
        )
        runtime.tasks.start(worker.run(), "batcher")
        runtime.tasks.start(endpoint.watch(), "NIXL")
        runtime.liveness.part("the aligner", worker.device.answers)
        runtime.liveness.part("NIXL", endpoint.answers)
        _, drain = report_load(
            *(runtime, settings, _NAME, worker.meter, registry.registry),
            slots=settings.max_requests,
        )
        await runtime.serve(
            _NAME, [Route(_ENDPOINT, AlignRequest, unary=worker.align)], drain=drain
        )
    finally:
        worker.device.close()
        await asyncio.to_thread(tracer.close)
        endpoint.close()


async def _landing_slab(
    settings: AlignWorkerSettings, checkpoint: Checkpoint, aligner: Aligner
) -> Slab:
    """Allocate the slab that embeddings land in. Raises SettingsError as `slab_device` does."""
    geometry = checkpoint.geometry
    layout = SlabLayout(
        geometry.hidden_size, ITEM_BYTES[settings.dtype], geometry.window_embeddings
    )
    gpu = settings.device if aligner.on_gpu else None
    device = slab_device(settings.slab, gpu, "AlignWorker")
    count = settings.landing_slots
    return await asyncio.to_thread(new_slab, layout, count, device=device, shared=False)


def _check_length(settings: AlignWorkerSettings, checkpoint: Checkpoint) -> None:
    if settings.max_tokens > checkpoint.geometry.max_positions:
        raise SettingsError(
            f"AlignWorker.max_tokens is {settings.max_tokens}, but the checkpoint has "
            f"{checkpoint.geometry.max_positions} positions (max_position_embeddings): lower it "
            "to that"
        )
