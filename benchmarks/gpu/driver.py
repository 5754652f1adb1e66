"""A driver process: speakers that call the pools over Dynamo, without frontend or client.

The first line on standard input has the configuration of the pools; each further one requests a
number of speakers, and is answered with a line of JSON once they are measured.
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
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import cancelled
from auricle.dynamo import Runtime
from auricle.launcher.config import load_config, settings_for
from auricle.load.reports import LOAD_TOPIC, WorkerLoad
from auricle.tools.load_generation.speakers import LoadInput, Pools, SpeakerPools, Speech
from auricle.tools.profiling.levels import without_request_lines
from benchmarks.gpu.measurements import Measurements
from benchmarks.gpu.speaker import speak_always
from benchmarks.prepared import ROOT

# The texts of the last chunks have this long to arrive.
_GRACE_SECONDS = 1.0
# A driver's seeds; no two drivers have the same number.
_SEEDS = 100_000


async def _drive(start: Mapping[str, Any]) -> None:
    config = Path(start["config"])
    sections = load_config(config, start["overrides"])
    settings: ProcessorSettings = settings_for("Processor", sections, str(config))
    source = LoadInput(settings, open_checkpoint(settings.model), _recordings())
    speech = Speech(source.recordings, start["segment_seconds"])
    runtime = Runtime(settings)
    try:
        pools = await _pools(runtime, source)
        _tell({"ready": True})
        seed = _SEEDS * start["number"]
        while line := await asyncio.to_thread(sys.stdin.readline):
            trial = json.loads(line)
            _tell(await _measured(trial, speech, pools, seed))
            seed += trial["streams"]
    finally:
        runtime.close()


async def _pools(runtime: Runtime, source: LoadInput) -> Pools:
    """Return the pools; requests are placed by their workers' load, as in a processor."""
    speakers = SpeakerPools(runtime, source, local=True)
    await speakers.ready()
    pools = speakers.pools
    runtime.subscribe("encode_worker", LOAD_TOPIC, WorkerLoad, pools.encode.loads.update)
    runtime.subscribe("pd_worker", LOAD_TOPIC, WorkerLoad, pools.pd.loads.update)
    return pools


async def _measured(
    trial: Mapping[str, Any], speech: Speech, pools: Pools, seed: int
) -> dict[str, Any]:
    """Run the speakers of a trial; chunks due in `seconds` after `settle_seconds` count."""
    loop = asyncio.get_running_loop()
    begin = loop.time() + trial["settle_seconds"]
    measured = Measurements(begin, begin + trial["seconds"])
    speakers = (speak_always(speech, pools, measured, seed + n) for n in range(trial["streams"]))
    tasks = [asyncio.create_task(speaker) for speaker in speakers]
    try:
        await asyncio.sleep(begin - loop.time())
        cpu = time.process_time()
        await asyncio.sleep(measured.end - loop.time())
        cores = (time.process_time() - cpu) / trial["seconds"]
        await asyncio.sleep(_GRACE_SECONDS)
        for task in tasks:
            if task.done():
                task.result()  # raises an unexpected error
    finally:
        await cancelled(tasks)
    return asdict(measured) | {"cores": cores}


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
