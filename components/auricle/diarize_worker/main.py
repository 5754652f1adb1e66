"""The diarize worker process."""

from __future__ import annotations

import asyncio
from typing import Final

import torch

from auricle.diarize_worker.metrics import DiarizeWorkerMetrics
from auricle.diarize_worker.worker import DiarizeWorker
from auricle.messages import DiarizeRequest, Parts, RunningModel
from auricle.process.device_faults import check_driver
from auricle.process.metrics import Registry
from auricle.process.status import report_status
from auricle.process.tracing import Tracer
from auricle.runtime import Route, Runtime, report_load
from auricle.settings import DiarizeWorkerSettings
from auricle.speakers.windowed import WindowedModel

_NAME: Final = "diarize_worker"
_ENDPOINT = "generate"


async def run(settings: DiarizeWorkerSettings) -> None:
    """Serve diarize requests until the process is told to stop and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    if settings.device.startswith("cuda"):
        check_driver(torch.version.cuda, "DiarizeWorker")
    report_status("loading the speaker model")
    model = await asyncio.to_thread(
        WindowedModel,
        settings.checkpoint,
        settings.device,
        settings.threads,
        settings.max_batch_windows,
    )
    report_status("warming up")
    await asyncio.to_thread(model.warm_up)
    registry = Registry()
    metrics = DiarizeWorkerMetrics(registry.registry)
    tracer = Tracer("DiarizeWorker", settings.otlp_endpoint, settings.namespace)
    worker = DiarizeWorker(settings, model, metrics, tracer)
    try:
        runtime = Runtime(settings, _ENDPOINT, registry.registry)
        runtime.add_metrics((_NAME, _ENDPOINT), registry.text)
        running = RunningModel(model.fingerprint, "float32")
        runtime.description.parts = lambda: Parts(model=running)
        runtime.tasks.start(worker.run(), "batcher")
        runtime.liveness.part("the speaker model", worker.device.answers)
        _, drain = report_load(
            *(runtime, settings, _NAME, worker.meter, registry.registry),
            slots=settings.max_requests,
        )
        routes = [Route(_ENDPOINT, DiarizeRequest, unary=worker.diarize)]
        await runtime.serve(_NAME, routes, drain=drain)
    finally:
        worker.device.close()
        await asyncio.to_thread(tracer.close)
