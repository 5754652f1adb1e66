"""The processor process."""

from __future__ import annotations

import asyncio

import numpy as np

from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.draining import Drain
from auricle.load_reports import WorkerLoad
from auricle.messages import AdmitSession, EndAudio, OpenSession, PushAudio
from auricle.metrics import Registry
from auricle.processor.metrics import ProcessorMetrics
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.service import ProcessorService
from auricle.processor.session import CheckpointView
from auricle.processor.windows import MIN_SAMPLES, KeyScheme, SegmentAudio
from auricle.runtime import Route, Runtime
from auricle.settings import ProcessorSettings
from auricle.status import report_status
from auricle.tracing import Tracer

_WORKERS_SECONDS = 600.0  # a PD worker may be loading weights


async def run(settings: ProcessorSettings) -> None:
    """Serve sessions until told to stop."""
    report_status("reading checkpoint")
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.model)
    view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
    report_status("warming up")
    await asyncio.to_thread(_warm_up, view, settings.dtype)
    runtime = Runtime(settings, healthy_with="open")
    report_status("waiting for workers")
    encode_pool, pd_pool = await _pools(runtime, settings)
    registry = Registry()
    metrics = ProcessorMetrics(registry.registry)
    tracer = Tracer("Processor", settings.otlp_endpoint)
    service = ProcessorService(settings, view, encode_pool, pd_pool, metrics, tracer)
    runtime.add_metrics(("processor", "open"), registry.text)
    routes = [
        Route("admit", AdmitSession, unary=service.admit, brief=True),
        Route("push", PushAudio, unary=service.push, brief=True),
        Route("end", EndAudio, unary=service.end, brief=True),
        Route("open", OpenSession, streamed=service.open),
    ]
    drain = Drain(
        service.leave, told_seconds=settings.load_report_seconds, deadline=settings.drain_seconds
    )
    instance, every = runtime.instance("processor", "open"), settings.load_report_seconds
    runtime.publish_load(
        "processor", lambda: service.load(instance, every, draining=drain.started), every
    )
    try:
        await runtime.serve("processor", routes, drain=drain)
    finally:
        await asyncio.to_thread(tracer.close)


async def _pools(runtime: Runtime, settings: ProcessorSettings) -> tuple[EncodePool, PdPool]:
    """Both, with a worker each."""
    encode = runtime.client("encode_worker", "generate")
    await encode.wait_for_instances(_WORKERS_SECONDS)
    decode = runtime.client("pd_worker", "generate")
    await decode.wait_for_instances(_WORKERS_SECONDS)
    by_kv = settings.placement == "kv"
    kv_index = runtime.kv_index("pd_worker", "generate") if by_kv else None
    encode_pool = EncodePool(encode, settings.encode_deadline_seconds, settings.attempts)
    pd_pool = PdPool(decode, settings.decode_deadline_seconds, settings.attempts, kv_index)
    runtime.hear_load("encode_worker", WorkerLoad, encode_pool.loads.heard)
    runtime.hear_load("pd_worker", WorkerLoad, pd_pool.loads.heard)
    return encode_pool, pd_pool


def _warm_up(view: CheckpointView, dtype: str) -> None:
    """Builds the mel tables, so the first session does not wait for them."""
    audio = SegmentAudio(view.geometry, KeyScheme(view.fingerprint, dtype, "warm-up"))
    audio.push(np.zeros(MIN_SAMPLES, np.int16))
    audio.windows(MIN_SAMPLES)
