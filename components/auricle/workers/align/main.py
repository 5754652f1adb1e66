"""The align worker process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import torch

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.config.settings import AlignWorkerSettings
from auricle.core.errors import SettingsError
from auricle.dynamo import Part, WorkerService, serve_worker
from auricle.embeddings.fetch import WindowFetcher
from auricle.embeddings.nixl import endpoint_over
from auricle.embeddings.placement import slab_device, slab_layout
from auricle.embeddings.slabs import new_slab
from auricle.process.device import DTYPES
from auricle.process.device_faults import check_driver
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import traced
from auricle.process.transport import transfers
from auricle.protocol.annotation import AlignRequest
from auricle.protocol.diagnosis import RunningModel
from auricle.workers.align.passes import AlignerPass, aligner_for
from auricle.workers.align.scripts import prompt_for
from auricle.workers.align.worker import AlignWorker, AlignWorkerMetrics


async def run(settings: AlignWorkerSettings) -> None:
    """Serve align requests until the process is stopped and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    if settings.device.startswith("cuda"):
        check_driver(torch.version.cuda, "AlignWorker")
    report_status("loading the aligner")
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.checkpoint)
    _check_length(settings, checkpoint)
    aligner = await asyncio.to_thread(
        aligner_for, checkpoint, settings.dtype, settings.device, settings.threads
    )
    gpu = settings.device if aligner.on_gpu else None
    device = slab_device(settings.slab, gpu, "AlignWorker")
    layout, count = slab_layout(checkpoint.geometry, settings.dtype), settings.landing_slots
    slab = await asyncio.to_thread(new_slab, layout, count, device=device, shared=False)
    endpoint = endpoint_over(slab, "align")
    registry = Registry()
    metrics = AlignWorkerMetrics(registry.registry)
    async with AsyncExitStack() as stack:
        stack.callback(endpoint.close)
        await asyncio.to_thread(endpoint.start)
        report_status("warming up")
        await asyncio.to_thread(aligner.warm_up)
        model = RunningModel(checkpoint.fingerprint, settings.dtype)
        fetcher = WindowFetcher(
            slab, endpoint, model, settings.read_deadline_seconds, metrics.landing
        )
        tracer = await stack.enter_async_context(traced("AlignWorker", settings))
        passes = AlignerPass(aligner, slab, DTYPES[settings.dtype], settings.max_batch_tokens)
        worker = AlignWorker(
            settings, prompt_for(checkpoint), fetcher, aligner, passes, metrics, tracer
        )
        stack.callback(worker.device.close)
        service = WorkerService(
            pool="align_worker",
            request=AlignRequest,
            handler=worker.align,
            meter=worker.meter,
            slots=settings.max_requests,
            unit="segments",
            model=model,
            parts=(
                Part("the aligner", worker.run, worker.device.answers),
                Part("NIXL", endpoint.watch, endpoint.answers),
            ),
            slab=fetcher.state,
            transfers=transfers(endpoint.backends, on_device=slab.on_device),
        )
        await serve_worker(settings, registry, service)


def _check_length(settings: AlignWorkerSettings, checkpoint: ModelCheckpoint) -> None:
    if settings.max_tokens > checkpoint.geometry.max_positions:
        raise SettingsError(
            f"AlignWorker.max_tokens is {settings.max_tokens}, but the checkpoint has "
            f"{checkpoint.geometry.max_positions} positions (max_position_embeddings): lower it "
            "to that"
        )
