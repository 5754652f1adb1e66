"""The PD worker process."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from contextlib import AsyncExitStack
from functools import partial

import numpy as np

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import PdWorkerSettings
from auricle.dynamo import Part, WorkerService, serve_worker
from auricle.embeddings.fetch import WindowFetcher
from auricle.embeddings.layout import SlabLayout, tenant_mark
from auricle.embeddings.nixl import NixlEndpoint, start_endpoint
from auricle.embeddings.placement import slab_layout, start_on_device
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab
from auricle.embeddings.slots import SlotRef
from auricle.process.device_turn import device_turn
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import traced
from auricle.process.transport import transfers
from auricle.protocol.diagnosis import KvRoom, RunningModel
from auricle.protocol.recognition import DecodeRequest
from auricle.workers.pd.engine import Engine, EngineKind, GenerateRequest
from auricle.workers.pd.engine_start import checked_kind, started_in_turn, watch
from auricle.workers.pd.metrics import PdWorkerMetrics
from auricle.workers.pd.worker import PdWorker


def prepare(settings: PdWorkerSettings) -> EngineKind:
    """Check the engine's device and load its libraries, before this process has threads.

    Blocks for seconds. Raises SettingsError.
    """
    kind = checked_kind(settings)
    report_status(f"loading {kind.name}")
    kind.begin(settings)
    return kind


async def run(settings: PdWorkerSettings, kind: EngineKind) -> None:
    """Serve decode requests until the process is stopped and has drained.

    `kind` is from `prepare`. Raises CheckpointError or SettingsError if it cannot start.
    """
    report_status("reading checkpoint")
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.model)
    prompt = PromptFormat(checkpoint)
    geometry = checkpoint.geometry
    slab, endpoint = await landing_slab(
        settings, slab_layout(geometry, settings.dtype), kind.device()
    )
    registry = Registry()
    metrics = PdWorkerMetrics(registry.registry)
    async with AsyncExitStack() as stack:
        tracer = await stack.enter_async_context(traced("PdWorker", settings))
        kv_events = _kv_events(settings, stack)
        stack.callback(slab.unlink)
        stack.callback(endpoint.close)
        await asyncio.to_thread(kind.check_memory, settings, checkpoint)
        engine = await started_in_turn(
            kind.name,
            kind.device(),
            partial(kind.start, settings, checkpoint, slab, prompt.audio_token, kv_events),
        )
        stack.push_async_callback(engine.close)
        slab.unlink()  # the engine's processes have mapped it
        model = RunningModel(checkpoint.fingerprint, settings.dtype)
        deadline_seconds = settings.read_deadline_seconds
        fetcher = WindowFetcher(slab, endpoint, model, deadline_seconds, metrics.landing)
        report_status("warming up")
        await _warm_up(engine, fetcher, slab, prompt, geometry.window_embeddings)
        worker = PdWorker(settings, prompt, geometry, fetcher, engine, metrics, tracer)
        service = WorkerService(
            pool="pd_worker",
            request=DecodeRequest,
            handler=worker.decode,
            meter=worker.meter,
            slots=settings.max_requests,
            unit="decodes",
            model=model,
            parts=(
                Part(kind.name, partial(watch, engine), engine.answers),
                Part("NIXL", endpoint.watch, endpoint.answers),
                Part("timed reads", fetcher.timer.run),
            ),
            slab=fetcher.state,
            timed_reads=fetcher.timer.reads,
            transfers=transfers(endpoint.name, endpoint.backends, on_device=slab.on_device),
            kv=KvRoom(
                engine.kv_tokens, settings.max_model_len, settings.max_requests, engine.attended
            ),
            held=lambda: len(worker.segments) + worker.meter.in_flight,
            engine_state=engine.state,
            kv_events=kv_events,
            kv_model=settings.model.name,
        )
        await serve_worker(settings, registry, service)


def _kv_events(settings: PdWorkerSettings, stack: AsyncExitStack) -> str:
    """Return the ZeroMQ address for KV events, empty for none; only this user can access it."""
    if settings.placement != "kv":
        return ""
    directory = tempfile.TemporaryDirectory(prefix="auricle-kv-", ignore_cleanup_errors=True)
    return f"ipc://{stack.enter_context(directory)}/kv"


async def landing_slab(
    settings: PdWorkerSettings, layout: SlabLayout, gpu: str | None
) -> tuple[Slab, NixlEndpoint]:
    """Allocate the landing slab, on the engine's GPU if it has one, and start its endpoint.

    Raises SettingsError if `slab` is device and that is impossible.
    """

    def start(place: str | None) -> tuple[Slab, NixlEndpoint]:
        slab = new_slab(layout, settings.landing_slots, device=place, shared=True)
        return slab, start_endpoint(slab, "pd")

    async with device_turn(gpu):
        return await asyncio.to_thread(start_on_device, settings.slab, gpu, "PdWorker", start)


async def _warm_up(
    engine: Engine, fetcher: WindowFetcher, slab: Slab, prompt: PromptFormat, length: int
) -> None:
    """Decode a window of zeros, through the path of requests."""
    key = uuid.uuid4().hex + tenant_mark("warm-up")
    slot = fetcher.table.allocate(key, length, partial=True)
    payload = np.zeros(slab.layout.payload_bytes(length), np.uint8)
    slab.write(slot.index, key, slot.generation, payload)
    window = SlotRef(key, slot.index, slot.generation, length)
    # Prompts whose language is a token ask for text only with it.
    languages = prompt.language_tokens(())
    language = prompt.language_of(languages[0]) if languages else None
    await engine.generate(
        GenerateRequest(
            "warm-up",
            prompt.head(""),
            [window],
            prompt.tail(language),
            prompt.stop_tokens,
            8,
            priority=1,
            tenant="warm-up",
        )
    )
    fetcher.table.abandon(slot)
