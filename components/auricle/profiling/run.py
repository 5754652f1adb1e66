"""Starts one worker of each pool, measures the knee of each, and writes the profile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import tempfile
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console

from auricle.audio.decode import read_audio
from auricle.audio.pcm import Int16
from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.errors import BadRequest
from auricle.launcher.config import load_config, settings_for
from auricle.launcher.serve import serve
from auricle.launcher.supervisor import Supervisor
from auricle.load.capacity_profile import UNITS, CapacityProfile, PoolProfile
from auricle.load.reports import WorkerKind
from auricle.processor.driver import CheckpointView
from auricle.profiling.levels import Level, costs, knee
from auricle.profiling.progress import without_request_lines
from auricle.profiling.ramp import Ramp
from auricle.profiling.speakers import Speech
from auricle.runtime import Runtime
from auricle.settings import ProcessorSettings

# Short segments and long ones, whose work has different proportions.
_SEGMENT_SECONDS = (2.5, 10.0)
_GRAPH = "graphs.e_pd:Processor"
_START_SECONDS = 900.0


async def profile(
    config: Path | None,
    overrides: Sequence[str],
    out: Path,
    audio: Sequence[Path],
    console: Console,
) -> None:
    """Measure both pools and write the profile to `out`.

    `audio` are recordings of typical speech. Raises AuricleError if the graph does not start
    or a pool cannot be measured.
    """
    os.environ.setdefault("DYN_LOG", "error")  # for this process, which calls workers itself
    logging.basicConfig(level=logging.ERROR)
    sections = load_config(config, overrides)
    settings = settings_for("Processor", sections, str(config or "the command line"))
    recordings = await asyncio.to_thread(_recordings, settings, audio)
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.model)
    view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
    with tempfile.TemporaryDirectory(prefix="auricle-profile-") as records:
        found_at = f"--Common.discovery_path={records}"
        async with _workers(config, [*overrides, found_at], console) as supervisor:
            own = settings.model_copy(
                update={"discovery_path": Path(records), "load_report_seconds": 1.0}
            )
            with without_request_lines():
                measured = await _measure(own, view, recordings, console)
            starts = {
                "encode_worker": supervisor.start_seconds("EncodeWorker"),
                "pd_worker": supervisor.start_seconds("PdWorker"),
            }
    pools = {
        kind: PoolProfile(costs(levels, UNITS[kind]), limit, round(starts[kind], 1))
        for kind, (levels, limit) in measured.items()
    }
    found = CapacityProfile(
        checkpoint=checkpoint.fingerprint,
        machine=f"{platform.machine()}, {_processor_name()}",
        date=datetime.now(UTC).date().isoformat(),
        encode_worker=pools["encode_worker"],
        pd_worker=pools["pd_worker"],
    )
    found.write(out)
    console.print(f"profile written to {out}", highlight=False)


_Measured = dict[WorkerKind, tuple[list[tuple[list[Level], float]], float]]


async def _measure(
    settings: ProcessorSettings,
    view: CheckpointView,
    recordings: Sequence[Int16],
    console: Console,
) -> _Measured:
    runtime = Runtime(settings)
    try:
        ramp = Ramp(
            runtime,
            settings,
            view,
            lambda line: console.print(line, highlight=False),
            ramps=len(UNITS) * len(_SEGMENT_SECONDS),
        )
        await ramp.ready()
        speeches = [Speech(recordings, s, chunk_ms=640) for s in _SEGMENT_SECONDS]
        alone = await ramp.alone(speeches[-1])
        target = settings.target_chunk_ms / 1000
        found: _Measured = {}
        for kind in UNITS:
            # Divides the target between the pools in proportion to their unloaded times.
            limit = target * alone[kind] / sum(alone.values())
            levels = [await ramp.levels(kind, speech, limit) for speech in speeches]
            found[kind] = ([(lv, knee(lv, limit)) for lv in levels], limit)
            for speech, (_, at) in zip(speeches, found[kind][0], strict=True):
                console.print(
                    f"{kind}: {at:.1f} speakers, segments of {speech.segment_seconds:g} s, "
                    f"within {limit * 1000:.0f} ms",
                    highlight=False,
                )
        return found
    finally:
        runtime.close()


@contextlib.asynccontextmanager
async def _workers(
    config: Path | None, overrides: Sequence[str], console: Console
) -> AsyncGenerator[Supervisor, None]:
    """Run one worker of each pool, and a processor without sessions, until the block ends."""
    ready = asyncio.Event()
    supervisors: list[Supervisor] = []
    one_each = [f"--{name}.replicas=1" for name in ("EncodeWorker", "PdWorker", "Processor")]
    # In the levels where nobody reads embeddings, leases must not fill the slab.
    one_each += ["--EncodeWorker.lease_seconds=1", "--Common.load_report_seconds=1"]
    # Beyond their knee workers refuse much and say so: that is what is measured.
    quiet = ["--Common.log_level=ERROR"]
    running = asyncio.create_task(
        serve(
            _GRAPH,
            config,
            [*quiet, *overrides, *one_each],
            console=console,
            quiet=True,
            on_ready=lambda _url: ready.set(),
            on_supervisor=supervisors.append,
        )
    )
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait(
            {running, waiting}, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not ready.is_set():
            await running  # raises the error that kept the graph from starting
        yield supervisors[0]
    finally:
        waiting.cancel()
        for supervisor in supervisors:
            supervisor.stop()
        await running


def _recordings(settings: ProcessorSettings, audio: Sequence[Path]) -> list[Int16]:
    """Read the recordings to profile with; by default those in the checkpoint directory."""
    files = list(audio) or sorted((settings.model / "recordings").glob("*.flac"))
    if not files:
        raise BadRequest(
            f"{settings.model} contains no recordings: name typical speech with --audio"
        )
    return [(read_audio(file) * 32767).clip(-32768, 32767).astype(np.int16) for file in files]


def _processor_name() -> str:
    """Return number and model of the processors, as Linux names them."""
    with Path("/proc/cpuinfo").open() as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "unknown processor"
