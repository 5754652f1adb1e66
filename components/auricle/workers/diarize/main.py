"""The diarize worker process."""

from __future__ import annotations

import asyncio
from contextlib import closing

import torch

from auricle.annotation.speakers.windowed import WindowedModel
from auricle.config.settings import DiarizeWorkerSettings
from auricle.dynamo import Part, WorkerService, serve_worker
from auricle.process.device_faults import check_driver
from auricle.process.device_turn import device_turn
from auricle.process.metrics import Registry, report_status
from auricle.process.tracing import traced
from auricle.protocol.annotation import DiarizeRequest
from auricle.protocol.diagnosis import RunningModel
from auricle.workers.diarize.worker import DiarizeWorker, DiarizeWorkerMetrics


async def run(settings: DiarizeWorkerSettings) -> None:
    """Serve diarize requests until the process is stopped and has drained.

    Raises CheckpointError or SettingsError if it cannot start.
    """
    gpu = settings.device if settings.device.startswith("cuda") else None
    if gpu is not None:
        check_driver(torch.version.cuda, "DiarizeWorker")
    async with device_turn(gpu):
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
    async with traced("DiarizeWorker", settings) as tracer:
        worker = DiarizeWorker(settings, model, metrics, tracer)
        service = WorkerService(
            pool="diarize_worker",
            request=DiarizeRequest,
            handler=worker.diarize,
            meter=worker.meter,
            slots=settings.max_requests,
            unit="segments",
            model=RunningModel(model.fingerprint, "float32"),
            parts=[Part("the speaker model", worker.run, worker.device.answers)],
        )
        with closing(worker.device):
            await serve_worker(settings, registry, service)
