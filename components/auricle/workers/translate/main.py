"""The translate worker process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from auricle.checkpoints.text_model import open_text_model
from auricle.config.settings import TranslateWorkerSettings
from auricle.dynamo import Part, WorkerService, serve_worker
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import traced
from auricle.protocol.annotation import TranslateRequest
from auricle.protocol.diagnosis import RunningModel
from auricle.workers.pd.engine import Engine, GenerateRequest, TextEngineKind
from auricle.workers.pd.engine_start import started_in_turn, text_kind, watch
from auricle.workers.translate.prompt import TranslatorPrompt
from auricle.workers.translate.worker import TranslateWorker, TranslateWorkerMetrics


def prepare(settings: TranslateWorkerSettings) -> TextEngineKind:
    """Check the engine's device and load its libraries, before this process has threads.

    Blocks for seconds. Raises SettingsError.
    """
    kind = text_kind(settings.engine)
    kind.check_device(settings)
    report_status(f"loading {kind.name}")
    kind.begin(settings)
    return kind


async def run(settings: TranslateWorkerSettings, kind: TextEngineKind) -> None:
    """Serve translate requests until the process is stopped and has drained.

    `kind` is from `prepare`. Raises CheckpointError or SettingsError if it cannot start.
    """
    report_status("reading checkpoint")
    model = await asyncio.to_thread(open_text_model, settings.checkpoint)
    prompt = await asyncio.to_thread(TranslatorPrompt, model)
    await asyncio.to_thread(kind.check_memory, settings, model)
    engine = await started_in_turn(kind.name, kind.device(), partial(kind.start, settings, model))
    registry = Registry()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.close)
        worker = TranslateWorker(
            settings,
            prompt,
            engine,
            TranslateWorkerMetrics(registry.registry),
            targets=settings.translate_targets or model.targets,
            sources=model.sources,
            tracer=await stack.enter_async_context(traced("TranslateWorker", settings)),
        )
        report_status("warming up")
        await _warm_up(engine, prompt)
        service = WorkerService(
            pool="translate_worker",
            request=TranslateRequest,
            handler=worker.translate,
            meter=worker.meter,
            slots=settings.max_requests,
            unit="translations",
            model=RunningModel(model.fingerprint, settings.dtype),
            parts=[Part(kind.name, partial(watch, engine), engine.answers)],
            engine_state=engine.state,
        )
        await serve_worker(settings, registry, service)


async def _warm_up(engine: Engine, prompt: TranslatorPrompt) -> None:
    """Translate a word, through the path of requests."""
    request = TranslateRequest("warm-up", "warm-up", "en", "es", "Hello.")
    built = prompt.build(request, 0)
    await engine.generate(
        GenerateRequest(
            "warm-up",
            built.tokens,
            (),
            (),
            prompt.stop_tokens,
            8,
            priority=1,
            tenant="warm-up",
            reusable_windows=None,
        )
    )
