"""The align worker process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import torch

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.config.settings import AlignWorkerSettings
from auricle.core.errors import SettingsError
from auricle.dynamo import Part, WorkerService, serve_worker
from auricle.embeddings.fetch import WindowFetcher
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.nixl import NixlEndpoint, start_endpoint
from auricle.embeddings.placement import slab_layout, start_on_device
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab
from auricle.process.device import DTYPES
from auricle.process.device_faults import check_driver
from auricle.process.device_turn import device_turn
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
    gpu = settings.device if settings.device.startswith("cuda") else None
    if gpu is not None:
        check_driver(torch.version.cuda, "AlignWorker")
    registry = Registry()
    metrics = AlignWorkerMetrics(registry.registry)
    async with AsyncExitStack() as stack:
        async with device_turn(gpu):
            report_status("loading the aligner")
            checkpoint = await asyncio.to_thread(open_checkpoint, settings.checkpoint)
            _check_length(settings, checkpoint)
            aligner = await asyncio.to_thread(
                aligner_for, checkpoint, settings.dtype, settings.device, settings.threads
            )
            slab, endpoint = await asyncio.to_thread(
                start_on_device,
                settings.slab,
                gpu,
                "AlignWorker",
                partial(_slab, settings, slab_layout(checkpoint.geometry, settings.dtype)),
            )
            stack.callback(endpoint.close)
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
                Part("timed reads", fetcher.timer.run),
            ),
            slab=fetcher.state,
            timed_reads=fetcher.timer.reads,
            transfers=transfers(endpoint.name, endpoint.backends, on_device=slab.on_device),
        )
        await serve_worker(settings, registry, service)


def _slab(
    settings: AlignWorkerSettings, layout: SlabLayout, place: str | None
) -> tuple[Slab, NixlEndpoint]:
    """Allocate the landing slab on the GPU `place`, or in host memory, and start its endpoint."""
    slab = new_slab(layout, settings.landing_slots, device=place, shared=False)
    return slab, start_endpoint(slab, "align")


def _check_length(settings: AlignWorkerSettings, checkpoint: ModelCheckpoint) -> None:
    if settings.max_tokens > checkpoint.geometry.max_positions:
        raise SettingsError(
            f"AlignWorker.max_tokens is {settings.max_tokens}, but the checkpoint has "
            f"{checkpoint.geometry.max_positions} positions (max_position_embeddings): lower it "
            "to that"
        )
