"""The diarize worker process."""

from __future__ import annotations

import asyncio

import torch

from auricle.diarize_worker.metrics import DiarizeWorkerMetrics
from auricle.diarize_worker.worker import DiarizeWorker
from auricle.load.reporter import LoadReporter, ReportedState
from auricle.load.reports import LOAD_TOPIC
from auricle.messages import DiarizeRequest, Parts, RunningModel
from auricle.process.device_faults import check_driver
from auricle.process.draining import Drain
from auricle.process.metrics import Registry
from auricle.process.status import report_status
from auricle.process.tracing import Tracer
from auricle.runtime import Route, Runtime
from auricle.settings import DiarizeWorkerSettings
from auricle.speakers.windowed import WindowedModel

_NAME, _ENDPOINT = "diarize_worker", "generate"


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
        drain = Drain(
            lambda: worker.meter.in_flight,
            told_seconds=2 * settings.load_report_seconds,
            deadline=settings.drain_seconds,
        )
        reported = ReportedState(
            kind="diarize_worker",
            instance=runtime.instance(_NAME, _ENDPOINT),
            slots_total=settings.max_requests,
        )
        load = LoadReporter(worker.meter, reported, drain, registry.registry)
        runtime.publish(_NAME, LOAD_TOPIC, load.report, settings.load_report_seconds)
        routes = [Route(_ENDPOINT, DiarizeRequest, unary=worker.diarize)]
        await runtime.serve(_NAME, routes, drain=drain)
    finally:
        worker.device.close()
        await asyncio.to_thread(tracer.close)
