"""The translate worker process."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from auricle.checkpoint.text_model import open_text_model
from auricle.messages import Parts, RunningModel, TranslateRequest
from auricle.pd_worker.engine import Engine
from auricle.pd_worker.engine_start import started_in_turn, text_kind
from auricle.pd_worker.translate.metrics import TranslateWorkerMetrics
from auricle.pd_worker.translate.prompt import TranslatorPrompt
from auricle.pd_worker.translate.worker import TranslateWorker
from auricle.pd_worker.watching import watch
from auricle.process.metrics import Registry
from auricle.process.status import report_status
from auricle.process.tracing import Tracer
from auricle.runtime import Route, Runtime, report_load
from auricle.settings import TranslateWorkerSettings

_NAME: Final = "translate_worker"
_ENDPOINT = "generate"


async def run(settings: TranslateWorkerSettings) -> None:
    """Serve translate requests until the process is told to stop and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    kind = text_kind()
    await asyncio.to_thread(kind.check_device, settings)
    report_status("reading checkpoint")
    model = await asyncio.to_thread(open_text_model, settings.checkpoint)
    prompt = await asyncio.to_thread(TranslatorPrompt, model)
    registry = Registry()
    tracer = Tracer("TranslateWorker", settings.otlp_endpoint, settings.namespace)
    await asyncio.to_thread(kind.check_memory, settings, model)
    engine = await started_in_turn(
        kind.name, settings.processes_per_device, partial(kind.start, settings, model)
    )
    try:
        worker = TranslateWorker(
            settings,
            prompt,
            engine,
            TranslateWorkerMetrics(registry.registry),
            targets=settings.translate_targets or model.targets,
            sources=model.sources,
            tracer=tracer,
        )
        report_status("warming up")
        await _warm_up(engine, prompt)
        runtime = Runtime(settings, _ENDPOINT, registry.registry)
        runtime.add_metrics((_NAME, _ENDPOINT), registry.text)
        runtime.tasks.start(watch(engine), kind.name)
        runtime.liveness.part(kind.name, engine.answers)
        state = engine.state
        load, drain = report_load(
            *(runtime, settings, _NAME, worker.meter, registry.registry),
            slots=settings.max_requests,
            kv_usage=lambda: state.kv_usage,
            step_seconds=lambda: state.step_seconds,
        )
        running = RunningModel(model.fingerprint, settings.dtype)
        runtime.description.parts = lambda: Parts(model=running, load=load.now("translations"))
        routes = [Route(_ENDPOINT, TranslateRequest, unary=worker.translate)]
        await runtime.serve(_NAME, routes, drain=drain)
    finally:
        await engine.close()
        await asyncio.to_thread(tracer.close)


async def _warm_up(engine: Engine, prompt: TranslatorPrompt) -> None:
    """Translate a word, through all that requests use."""
    request = TranslateRequest("warm-up", "warm-up", "en", "es", "Hello.")
    built = prompt.build(request, 0)
    await engine.generate(
        "warm-up", built.tokens, (), (), prompt.stop_tokens, 8,
        priority=1, tenant="warm-up", reusable_windows=None,
    )  # fmt: skip
