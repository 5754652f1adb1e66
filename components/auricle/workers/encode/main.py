"""The process of an encode worker, in the decoder's or the aligner's pool."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import torch

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import SettingsError
from auricle.dynamo import Part, WorkerService, serve_worker
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.nixl import NixlEndpoint, start_endpoint
from auricle.embeddings.placement import slab_layout, start_on_device
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab
from auricle.process.device_faults import check_driver
from auricle.process.device_turn import device_turn
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import traced
from auricle.process.transport import transfers
from auricle.protocol.diagnosis import RunningModel
from auricle.protocol.recognition import EncodeRequest
from auricle.workers.encode.encoder import AudioEncoder
from auricle.workers.encode.passes import warm_up
from auricle.workers.encode.store import EmbeddingStore, Identity
from auricle.workers.encode.worker import EncodeWorker, EncodeWorkerMetrics

_EXPIRE_SECONDS = 1.0


def encoder_for(checkpoint: ModelCheckpoint, settings: EncodeWorkerSettings) -> AudioEncoder:
    """Load a checkpoint's encoder. Raises CheckpointError, and SettingsError if it lacks a setting.

    Imports the encoder of this kind alone: transformers' modules take seconds and 150 MB.
    """
    arguments = (checkpoint, settings.dtype, settings.device, settings.threads)
    if settings.compute_type and checkpoint.architecture.encoder != "whisper":
        raise SettingsError(
            f"compute_type is {settings.compute_type}, a setting of Whisper's encoder, but the "
            f"encoder of {checkpoint.path} is another one: set it to null"
        )
    match checkpoint.architecture.encoder:
        case "windowed" if settings.cuda_graphs and settings.device.startswith("cuda"):
            from auricle.workers.encode.bucketed import BucketedEncoder, CudaGraphs

            return BucketedEncoder(*arguments, settings.max_batch_windows, CudaGraphs().capture)
        case "windowed":
            from auricle.workers.encode.windowed import WindowedEncoder

            return WindowedEncoder(*arguments)
        case "whole_chunks":
            from auricle.workers.encode.whole_chunks import WholeChunkEncoder

            return WholeChunkEncoder(*arguments)
        case "causal":
            from auricle.workers.encode.causal import CausalEncoder

            return CausalEncoder(*arguments)
        case "whisper":
            from auricle.workers.encode.whisper import WhisperChunkEncoder

            return WhisperChunkEncoder(*arguments, int8=settings.compute_type == "int8")


@dataclass(frozen=True)
class _Stored:
    """The slab, its content, and the endpoint through which others read it."""

    slab: Slab
    store: EmbeddingStore
    endpoint: NixlEndpoint


async def run(settings: EncodeWorkerSettings) -> None:
    """Serve encode requests until the process is stopped and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    gpu = settings.device if settings.device.startswith("cuda") else None
    if gpu is not None:
        check_driver(torch.version.cuda, settings.component)
    registry = Registry(pool=settings.pool)
    async with AsyncExitStack() as stack:
        async with device_turn(gpu):
            report_status(f"loading the audio encoder in {settings.dtype}")
            checkpoint = await asyncio.to_thread(open_checkpoint, settings.checkpoint)
            geometry = checkpoint.geometry
            encoder = await asyncio.to_thread(encoder_for, checkpoint, settings)
            stored = await asyncio.to_thread(
                start_on_device,
                settings.slab,
                gpu,
                settings.component,
                partial(_stored, settings, slab_layout(geometry, settings.dtype)),
            )
            store, endpoint = stored.store, stored.endpoint
            stack.callback(endpoint.close)
            worker = EncodeWorker(
                settings,
                geometry,
                encoder,
                store,
                Identity(endpoint.name, endpoint.metadata, checkpoint.fingerprint, settings.dtype),
                EncodeWorkerMetrics(registry.registry, store),
                endpoint.wake,
                await stack.enter_async_context(traced(settings.component, settings)),
            )
            stack.callback(worker.device.close)
            report_status("warming up")
            # In the thread of passes, as libraries keep kernels and plans per thread.
            await worker.device.run(partial(warm_up, encoder, geometry), settings.max_batch_windows)
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
            transfers=transfers(endpoint.name, endpoint.backends, on_device=stored.slab.on_device),
            held=lambda: store.open_leases() + worker.meter.in_flight,
        )
        await serve_worker(settings, registry, service)


def _stored(settings: EncodeWorkerSettings, layout: SlabLayout, place: str | None) -> _Stored:
    """Allocate the slab in memory of the GPU `place`, or of the host, and start its endpoint."""
    slab = new_slab(layout, settings.slots, device=place, shared=False)
    store = EmbeddingStore(slab, settings.lease_seconds)
    endpoint = start_endpoint(
        slab,
        "encode",
        on_notice=store.release,
        awaiting_notices=lambda: store.open_leases() > 0,
    )
    return _Stored(slab, store, endpoint)


async def _expire_leases(store: EmbeddingStore) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_SECONDS)
        store.expire(time.monotonic())
