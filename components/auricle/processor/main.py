"""The processor's process: set-up, endpoints, draining."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np

from auricle.checkpoint.files import Checkpoint, open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.load.reports import LOAD_TOPIC, StartingPools, WorkerLoad
from auricle.load.starting import Starting
from auricle.messages import (
    AdmitSession,
    AskProbe,
    AskView,
    EndAudio,
    OpenSession,
    Parts,
    PushAudio,
    RunningModel,
    WithdrawAdmission,
)
from auricle.process.draining import Drain
from auricle.process.metrics import Registry
from auricle.process.status import report_status
from auricle.process.tracing import Tracer
from auricle.processor.aligner import WordAligner
from auricle.processor.diarizer import DiarizePool, Diarizer
from auricle.processor.driver import CheckpointView
from auricle.processor.metrics import ProcessorMetrics
from auricle.processor.pools import AlignPool, EncodePool, PdPool
from auricle.processor.probe import Prober, segment_need
from auricle.processor.service import ProcessorService
from auricle.processor.translator import TranslatePool, Translator
from auricle.processor.windows import MIN_SAMPLES, KeyScheme, SegmentAudio
from auricle.runtime import WORKER_PULSE, Route, Runtime
from auricle.settings import ProcessorSettings

_WORKERS_SECONDS = 600.0  # a PD worker may be loading weights


async def run(settings: ProcessorSettings) -> None:
    """Serve sessions until the runtime is told to stop, then drain.

    Raises DeadlineExceeded if a pool has no worker after 10 minutes.
    """
    report_status("reading checkpoint")
    checkpoint = await asyncio.to_thread(_checkpoint, settings, settings.model)
    view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
    report_status("warming up")
    await asyncio.to_thread(_warm_up, view, settings.dtype)
    registry = Registry()
    runtime = Runtime(settings, "open", registry.registry)
    report_status("waiting for workers")
    encode_pool, pd_pool = await _pools(runtime, settings)
    metrics = ProcessorMetrics(registry.registry)
    tracer = Tracer("Processor", settings.otlp_endpoint, settings.namespace)
    starting = Starting()
    runtime.subscribe("planner", LOAD_TOPIC, StartingPools, starting.heard)
    aligner = await _aligner(runtime, settings, starting)
    diarizer = _diarizer(runtime, settings, starting)
    translator = _translator(runtime, settings, starting)
    service = ProcessorService(
        *(settings, view, encode_pool, pd_pool, metrics, tracer, aligner, diarizer, translator)
    )
    prober = Prober(view, settings.dtype, encode_pool, pd_pool)
    model, need = RunningModel(view.fingerprint, settings.dtype), segment_need(view, settings)
    runtime.description.parts = lambda: Parts(model=model, segment=need, load=service.load_now)
    runtime.add_metrics(("processor", "open"), registry.text)
    routes = [
        Route("admit", AdmitSession, unary=service.admit, brief=True),
        Route("withdraw", WithdrawAdmission, unary=service.withdraw, brief=True),
        Route("push", PushAudio, unary=service.push, brief=True),
        Route("end", EndAudio, unary=service.end, brief=True),
        Route("view", AskView, unary=service.view, brief=True),
        Route("probe", AskProbe, unary=prober.probe),
        Route("open", OpenSession, streamed=service.open),
    ]
    drain = Drain(
        service.leave, told_seconds=settings.load_report_seconds, deadline=settings.drain_seconds
    )
    instance, every = runtime.instance("processor", "open"), settings.load_report_seconds
    runtime.publish(
        "processor",
        LOAD_TOPIC,
        lambda: service.load(instance, every, draining=drain.started),
        every,
    )
    try:
        await runtime.serve("processor", routes, drain=drain)
    finally:
        await asyncio.to_thread(tracer.close)


def _checkpoint(settings: ProcessorSettings, path: Path) -> Checkpoint:
    """Open a checkpoint, with the sizes of what is encoded by these settings."""
    found = open_checkpoint(path)
    if settings.padding == "full":
        return found
    return replace(found, geometry=found.geometry.before_cached_silence())


async def _pools(runtime: Runtime, settings: ProcessorSettings) -> tuple[EncodePool, PdPool]:
    """Wait until both pools have a worker and subscribe to their load reports."""
    encode = runtime.client("encode_worker", "generate", local=True)
    await encode.wait_for_instances(_WORKERS_SECONDS)
    decode = runtime.client("pd_worker", "generate", local=True)
    await decode.wait_for_instances(_WORKERS_SECONDS)
    by_kv = settings.placement == "kv"
    kv_index = runtime.kv_index("pd_worker", "generate") if by_kv else None
    encode_pool = EncodePool(
        encode,
        settings.encode_deadline_seconds,
        settings.attempts,
        runtime.pulses("encode_worker", encode, WORKER_PULSE),
    )
    pd_pool = PdPool(
        decode,
        settings.decode_deadline_seconds,
        settings.attempts,
        kv_index,
        runtime.pulses("pd_worker", decode, WORKER_PULSE),
    )
    runtime.subscribe("encode_worker", LOAD_TOPIC, WorkerLoad, encode_pool.loads.heard)
    runtime.subscribe("pd_worker", LOAD_TOPIC, WorkerLoad, pd_pool.loads.heard)
    return encode_pool, pd_pool


async def _aligner(
    runtime: Runtime, settings: ProcessorSettings, starting: Starting
) -> WordAligner | None:
    """Connect to the align pool and its encode workers, if there is an aligner.

    Sessions do not wait for them, so neither does the start.
    """
    if settings.align_model is None:
        return None
    report_status("reading the aligner's checkpoint")
    checkpoint = await asyncio.to_thread(_checkpoint, settings, settings.align_model)
    encoders = "encode_worker" if settings.aligns_itself else "align_encode_worker"
    encode = runtime.client(encoders, "generate", local=True)
    align = runtime.client("align_worker", "generate", local=True)
    # Half of a segment's time, so that there is another attempt, and an answer that says why.
    patience = settings.words_deadline_seconds / 2
    encode_pool = EncodePool(
        encode,
        patience,
        1,
        runtime.pulses(encoders, encode, WORKER_PULSE),
    )
    pool = AlignPool(
        align,
        patience,
        settings.attempts,
        runtime.pulses("align_worker", align, WORKER_PULSE),
    )
    runtime.subscribe(encoders, LOAD_TOPIC, WorkerLoad, encode_pool.loads.heard)
    runtime.subscribe("align_worker", LOAD_TOPIC, WorkerLoad, pool.loads.heard)
    return WordAligner(
        *(checkpoint, settings.dtype, encode_pool, pool, starting), encoded=settings.aligns_itself
    )


def _diarizer(runtime: Runtime, settings: ProcessorSettings, starting: Starting) -> Diarizer | None:
    """Connect to the diarize pool, if there is a speaker model; sessions do not wait for it."""
    if settings.speaker_model is None:
        return None
    client = runtime.client("diarize_worker", "generate", local=True)
    pool = DiarizePool(
        client,
        settings.speakers_deadline_seconds / 2,  # so that there is another attempt
        settings.attempts,
        runtime.pulses("diarize_worker", client, WORKER_PULSE),
    )
    runtime.subscribe("diarize_worker", LOAD_TOPIC, WorkerLoad, pool.loads.heard)
    return Diarizer(pool, starting)


def _translator(
    runtime: Runtime, settings: ProcessorSettings, starting: Starting
) -> Translator | None:
    """Connect to the translate pool, if there is a model; sessions do not wait for it."""
    if settings.translate_model is None:
        return None
    client = runtime.client("translate_worker", "generate", local=True)
    pool = TranslatePool(
        client,
        settings.translation_deadline_seconds / 2,  # so that there is another attempt
        settings.attempts,
        runtime.pulses("translate_worker", client, WORKER_PULSE),
    )
    runtime.subscribe("translate_worker", LOAD_TOPIC, WorkerLoad, pool.loads.heard)
    return Translator(pool, starting)


def _warm_up(view: CheckpointView, dtype: str) -> None:
    """Build the mel tables, so that the first session does not wait for them."""
    audio = SegmentAudio(view.geometry, KeyScheme(view.fingerprint, dtype, "warm-up"))
    audio.push(np.zeros(MIN_SAMPLES, np.int16))
    audio.windows(MIN_SAMPLES)
