"""The processor's process: set-up, endpoints, draining."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np

from auricle.annotation.translation.targets import Directions
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.checkpoints.text_model import pool_targets
from auricle.config.settings import ProcessorSettings
from auricle.dynamo import Route, Runtime
from auricle.load.pools import Starting
from auricle.load.reports import LOAD_TOPIC, PoolKind, StartingPools
from auricle.process.draining import Drain
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import Tracer, traced
from auricle.processor.annotators.sessions import Annotators
from auricle.processor.annotators.speech_translations import SpeechTranslator
from auricle.processor.annotators.words import WordAligner
from auricle.processor.driver import CheckpointView
from auricle.processor.metrics import ProcessorMetrics
from auricle.processor.pools import EncodePool, PdPool, Pool, TranslatePool
from auricle.processor.probe import Prober, segment_need
from auricle.processor.service import ProcessorService
from auricle.processor.session.windows import MIN_SAMPLES, KeyScheme, SegmentAudio
from auricle.protocol.diagnosis import AskProbe, Parts, RunningModel
from auricle.protocol.sessions import (
    AdmitSession,
    EndAudio,
    OpenSession,
    PushAudio,
    WithdrawAdmission,
)
from auricle.protocol.views import AskView

_WORKERS_SECONDS = 600.0  # a PD worker may be loading weights


async def run(settings: ProcessorSettings) -> None:
    """Serve sessions until the process must stop, then drain.

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
    encode_pool, pd_pool = await _required_pools(runtime, settings)
    metrics = ProcessorMetrics(registry.registry)
    prober = Prober(view, settings.dtype, encode_pool, pd_pool)
    async with traced("Processor", settings) as tracer:
        annotators = await _annotators(runtime, settings, view.prompt, tracer, encode_pool, pd_pool)
        service = ProcessorService(
            settings, view, encode_pool, pd_pool, metrics, tracer, annotators
        )
        await _serve(runtime, settings, registry, view, service, prober)


async def _annotators(
    runtime: Runtime,
    settings: ProcessorSettings,
    prompt: PromptFormat,
    tracer: Tracer,
    encode_pool: EncodePool,
    pd_pool: PdPool,
) -> Annotators:
    """Return the annotators, with the pools that are configured."""
    starting = Starting()
    runtime.subscribe("planner", LOAD_TOPIC, StartingPools, starting.update)
    aligner = await _aligner(runtime, settings, starting)
    diarizer = translator = speech_translator = None
    if settings.speaker_model is not None:
        seconds = settings.speakers_deadline_seconds
        diarizer = _optional_pool(runtime, settings, "diarize_worker", seconds, starting)
    if settings.translate_model is not None:
        seconds = settings.translation_deadline_seconds
        translator = _optional_pool(runtime, settings, "translate_worker", seconds, starting)
    directions = Directions(
        pool_targets(settings.translate_model, settings.translate_targets), prompt.translates
    )
    if directions.english_by_speech:
        speech_translator = SpeechTranslator(prompt, settings, encode_pool, pd_pool, tracer)
    return Annotators(
        settings,
        prompt,
        aligner=aligner,
        diarizer=diarizer,
        translator=translator,
        speech_translator=speech_translator,
        directions=directions,
    )


async def _serve(
    runtime: Runtime,
    settings: ProcessorSettings,
    registry: Registry,
    view: CheckpointView,
    service: ProcessorService,
    prober: Prober,
) -> None:
    model, need = RunningModel(view.fingerprint, settings.dtype), segment_need(view, settings)
    runtime.description.parts = lambda: Parts(model=model, segment=need, load=service.load_now)
    runtime.description.on_probe = service.leases.heard
    runtime.tasks.start(service.leases.run(), "session leases")
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
    every = settings.load_report_seconds
    drain = Drain(service.leave, notice_seconds=every, deadline=settings.drain_seconds)
    instance = runtime.instance("processor", "open")
    runtime.publish(
        "processor",
        LOAD_TOPIC,
        lambda: service.load(instance, every, draining=drain.started),
        every,
    )
    await runtime.serve("processor", routes, drain=drain)


def _checkpoint(settings: ProcessorSettings, path: Path) -> ModelCheckpoint:
    """Open a checkpoint, with the geometry that the settings select."""
    found = open_checkpoint(path)
    if settings.padding == "full":
        return found
    return replace(found, geometry=found.geometry.before_cached_silence())


async def _required_pools(
    runtime: Runtime, settings: ProcessorSettings
) -> tuple[EncodePool, PdPool]:
    """Connect to the required pools, and wait until both have a worker."""
    by_kv = settings.placement == "kv"
    kv_index = runtime.kv_index("pd_worker", "generate") if by_kv else None
    attempts = settings.attempts
    encode = EncodePool.of(runtime, "encode_worker", settings.encode_deadline_seconds, attempts)
    decode = PdPool.of(
        runtime, "pd_worker", settings.decode_deadline_seconds, attempts, kv_index=kv_index
    )
    await encode.ready(_WORKERS_SECONDS)
    await decode.ready(_WORKERS_SECONDS)
    return encode, decode


async def _aligner(
    runtime: Runtime, settings: ProcessorSettings, starting: Starting
) -> WordAligner | None:
    """Connect to the align pool and its encode workers, if there is an aligner."""
    if settings.align_model is None:
        return None
    report_status("reading the aligner's checkpoint")
    checkpoint = await asyncio.to_thread(_checkpoint, settings, settings.align_model)
    own = settings.aligns_itself
    encode = EncodePool.of(
        runtime,
        "encode_worker" if own else "align_encode_worker",
        settings.words_deadline_seconds / 2,  # leaves time for a second attempt
        1,
        planned=lambda: "align_encode_worker" in starting,
    )
    seconds = settings.words_deadline_seconds
    pool = _optional_pool(runtime, settings, "align_worker", seconds, starting)
    return WordAligner(checkpoint, settings.dtype, encode, pool, encoded=own)


def _optional_pool(
    runtime: Runtime,
    settings: ProcessorSettings,
    component: PoolKind,
    deadline_seconds: float,
    starting: Starting,
) -> Pool:
    """Connect to a pool of annotations, without waiting for a worker."""
    kind = TranslatePool if component == "translate_worker" else Pool
    return kind.of(
        runtime,
        component,
        deadline_seconds / 2,  # leaves time for a second attempt
        settings.attempts,
        planned=lambda: component in starting,
    )


def _warm_up(view: CheckpointView, dtype: str) -> None:
    """Build the mel tables, so that the first session does not wait for them."""
    audio = SegmentAudio(view.geometry, KeyScheme(view.fingerprint, dtype, "warm-up"))
    audio.push(np.zeros(MIN_SAMPLES, np.int16))
    audio.windows(MIN_SAMPLES)
