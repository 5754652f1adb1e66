"""The PD worker process."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from functools import partial

import numpy as np

from auricle.checkpoint.files import Checkpoint, open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.embeddings.endpoints import endpoint_over
from auricle.embeddings.keys import tenant_mark
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab
from auricle.embeddings.slots import SlotTable
from auricle.landing.fetch import WindowFetcher
from auricle.landing.placed import PlacedWindow
from auricle.load.reporter import LoadReporter
from auricle.messages import DecodeRequest, KvRoom, Parts, RunningModel, SlabState, Transfers
from auricle.pd_worker.device_turn import device_turn
from auricle.pd_worker.engine import Engine, EngineKind
from auricle.pd_worker.engine_start import checked_kind, started_in_turn
from auricle.pd_worker.metrics import PdWorkerMetrics
from auricle.pd_worker.watching import watch
from auricle.pd_worker.worker import PdWorker
from auricle.process.metrics import Registry
from auricle.process.slab_place import slab_device
from auricle.process.status import report_status
from auricle.process.tracing import Tracer
from auricle.process.transport import transfers
from auricle.runtime import Route, Runtime, report_load
from auricle.settings import PdWorkerSettings


async def run(settings: PdWorkerSettings) -> None:
    """Serve decode requests until the process is told to stop and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    kind = await asyncio.to_thread(checked_kind, settings)
    report_status("reading checkpoint")
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.model)
    prompt = PromptFormat(checkpoint)
    geometry = checkpoint.geometry
    layout = SlabLayout(
        geometry.hidden_size, ITEM_BYTES[settings.dtype], geometry.window_embeddings
    )
    slab = await _landing_slab(settings, layout, kind.device())
    endpoint = endpoint_over(slab, "pd")
    registry = Registry()
    metrics = PdWorkerMetrics(registry.registry)
    engine = kv_directory = None
    try:
        await asyncio.to_thread(endpoint.start)
        kv_events = ""
        if settings.placement == "kv":
            # The directory of a socket; only this user may access it.
            kv_directory = tempfile.mkdtemp(prefix="auricle-kv-")
            kv_events = f"ipc://{kv_directory}/kv"
        engine = await _engine(kind, settings, checkpoint, kv_events, slab, prompt.audio_token)
        slab.unlink()  # the engine's processes have mapped it
        fetcher = WindowFetcher(
            slab,
            endpoint,
            fingerprint=checkpoint.fingerprint,
            dtype=settings.dtype,
            deadline_seconds=settings.read_deadline_seconds,
            on_read=metrics.read_seconds.observe,
        )
        metrics.slots_in_use.set_function(lambda: fetcher.table.in_use)
        metrics.slots.set(settings.landing_slots)
        metrics.requests_limit.set(settings.max_requests)
        tracer = Tracer("PdWorker", settings.otlp_endpoint, settings.namespace)
        report_status("warming up")
        await _warm_up(engine, fetcher, slab, prompt, geometry.window_embeddings)
        worker = PdWorker(settings, prompt, geometry, fetcher, engine, metrics, tracer)
        runtime = Runtime(settings, "generate", registry.registry)
        runtime.add_metrics(("pd_worker", "generate"), registry.text)
        _watch_parts(runtime, kind.name, engine, endpoint)
        moves = transfers(endpoint.backends, on_device=slab.on_device)
        state = engine.state
        load, drain = report_load(
            *(runtime, settings, "pd_worker", worker.meter, registry.registry),
            slots=settings.max_requests,
            held=lambda: len(worker.segments) + worker.meter.in_flight,
            kv_usage=lambda: state.kv_usage,
            step_seconds=lambda: state.step_seconds,
        )
        runtime.description.parts = partial(
            _parts, checkpoint.fingerprint, settings, engine, fetcher.table, moves, load
        )
        if kv_events:
            await runtime.publish_kv("pd_worker", "generate", kv_events, settings.model.name)
        routes = [Route("generate", DecodeRequest, unary=worker.decode)]
        await runtime.serve("pd_worker", routes, drain=drain)
    finally:
        slab.unlink()
        endpoint.close()
        if engine is not None:
            await engine.close()
        if kv_directory is not None:
            shutil.rmtree(kv_directory, ignore_errors=True)


async def _landing_slab(settings: PdWorkerSettings, layout: SlabLayout, gpu: str | None) -> Slab:
    """Allocate the slab that embeddings land in, on the engine's GPU if it has one.

    Raises SettingsError if they are to land on a GPU and cannot.
    """
    count = settings.landing_slots
    device = slab_device(settings.slab, gpu, "PdWorker")
    if device is None:
        return new_slab(layout, count, device=None, shared=True)
    report_status("waiting for its device")
    # Others that are loading would count what this takes of the GPU as theirs.
    async with device_turn(settings.processes_per_device):
        return await asyncio.to_thread(new_slab, layout, count, device=device, shared=True)


async def _engine(
    kind: EngineKind,
    settings: PdWorkerSettings,
    checkpoint: Checkpoint,
    kv_events: str,
    slab: Slab,
    audio_token: int | None,
) -> Engine:
    await asyncio.to_thread(kind.check_memory, settings, checkpoint)
    start = partial(kind.start, settings, checkpoint, slab, audio_token, kv_events)
    return await started_in_turn(kind.name, settings.processes_per_device, start)


async def _warm_up(
    engine: Engine, fetcher: WindowFetcher, slab: Slab, prompt: PromptFormat, length: int
) -> None:
    """Decode a window of zeros, through all that requests use."""
    key = uuid.uuid4().hex + tenant_mark("warm-up")
    slot = fetcher.table.allocate(key, length, partial=True)
    payload = np.zeros(slab.layout.payload_bytes(length), np.uint8)
    slab.write(slot.index, key, slot.generation, payload)
    window = PlacedWindow(key, slot.index, slot.generation, length)
    await engine.generate(
        "warm-up", prompt.head(""), [window], prompt.tail(None), prompt.stop_tokens, 8,
        priority=1, tenant="warm-up",
    )  # fmt: skip
    fetcher.table.abandon(slot)


def _parts(
    fingerprint: str,
    settings: PdWorkerSettings,
    engine: Engine,
    table: SlotTable,
    moves: Transfers,
    load: LoadReporter,
) -> Parts:
    return Parts(
        model=RunningModel(fingerprint, settings.dtype),
        slab=SlabState(table.count, table.in_use, table.pinned),
        transfers=moves,
        kv=KvRoom(engine.kv_tokens, settings.max_model_len, settings.max_requests, engine.attended),
        load=load.now("decodes"),
    )


def _watch_parts(runtime: Runtime, name: str, engine: Engine, endpoint: NixlEndpoint) -> None:
    runtime.tasks.start(watch(engine), name)
    runtime.tasks.start(endpoint.watch(), "NIXL")
    runtime.liveness.part(name, engine.answers)
    runtime.liveness.part("NIXL", endpoint.answers)
