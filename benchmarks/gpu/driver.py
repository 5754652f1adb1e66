"""A driver process: speakers straight at the pools over Dynamo, without frontend or client.

The first line on standard input says where the pools are; each further one asks for a number of
speakers, and is answered with a line of JSON once they have been heard.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from auricle.audio.decode import read_audio
from auricle.audio.pcm import Int16
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import cancelled
from auricle.dynamo import Runtime
from auricle.launcher.config import load_config, settings_for
from auricle.load.reports import LOAD_TOPIC, WorkerLoad
from auricle.processor.driver import CheckpointView
from auricle.processor.pools import EncodePool, PdPool
from auricle.tools.profiling.levels import without_request_lines
from benchmarks.gpu.heard import Heard
from benchmarks.gpu.speaker import Pools, Speaker, Speech
from benchmarks.prepared import ROOT

_READY_SECONDS = 60.0
# What is due at the end has this long to come.
_GRACE_SECONDS = 1.0
# A driver's seeds; no two drivers have the same number.
_SEEDS = 100_000


async def _drive(start: Mapping[str, Any]) -> None:
    config = Path(start["config"])
    sections = load_config(config, start["overrides"])
    settings: ProcessorSettings = settings_for("Processor", sections, str(config))
    checkpoint = open_checkpoint(settings.model)
    view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
    speech = Speech(_recordings(), start["segment_seconds"])
    runtime = Runtime(settings)
    try:
        pools = await _pools(runtime, settings, view)
        _tell({"ready": True})
        seed = _SEEDS * start["number"]
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            _tell(await _heard(asked, speech, pools, seed))
            seed += asked["streams"]
    finally:
        runtime.close()


async def _pools(runtime: Runtime, settings: ProcessorSettings, view: CheckpointView) -> Pools:
    """Return the pools, placed by their workers' load as in a processor."""
    encode = EncodePool(
        runtime.client("encode_worker", "generate", local=True),
        settings.encode_deadline_seconds,
        settings.attempts,
    )
    pd = PdPool(
        runtime.client("pd_worker", "generate", local=True),
        settings.decode_deadline_seconds,
        settings.attempts,
    )
    await encode.ready(_READY_SECONDS)
    await pd.ready(_READY_SECONDS)
    runtime.subscribe("encode_worker", LOAD_TOPIC, WorkerLoad, encode.loads.heard)
    runtime.subscribe("pd_worker", LOAD_TOPIC, WorkerLoad, pd.loads.heard)
    return Pools(settings, view, encode, pd)


async def _heard(
    asked: Mapping[str, Any], speech: Speech, pools: Pools, seed: int
) -> dict[str, Any]:
    """Run so many speakers; what is due after the settling, for the seconds asked for, counts."""
    loop = asyncio.get_running_loop()
    begin = loop.time() + asked["settle_seconds"]
    heard = Heard(begin, begin + asked["seconds"])
    speakers = [Speaker(speech, pools, heard, seed + n) for n in range(asked["streams"])]
    tasks = [asyncio.create_task(speaker.run()) for speaker in speakers]
    try:
        await asyncio.sleep(begin - loop.time())
        cpu = time.process_time()
        await asyncio.sleep(heard.end - loop.time())
        cores = (time.process_time() - cpu) / asked["seconds"]
        await asyncio.sleep(_GRACE_SECONDS)
        for task in tasks:
            if task.done():
                task.result()  # speakers end by errors that nobody foresaw
    finally:
        await cancelled(tasks)
    return asdict(heard) | {"cores": cores}


def _recordings() -> list[Int16]:
    files = sorted((ROOT / "models/demo/recordings").glob("*.flac"))
    return [(read_audio(file) * 32767).clip(-32768, 32767).astype(np.int16) for file in files]


def _tell(answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def main() -> None:
    os.environ.setdefault("DYN_LOG", "error")
    with without_request_lines():
        asyncio.run(_drive(json.loads(sys.stdin.readline())))


if __name__ == "__main__":
    main()
