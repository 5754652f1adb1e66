"""Starts one encode worker and a device's PD workers, finds their knees, writes the profile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from auricle.audio.decode import read_audio
from auricle.audio.pcm import Int16
from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import BadRequest
from auricle.dynamo import Runtime
from auricle.launcher.config import COMMAND_LINE, Sections, load_config, settings_for
from auricle.launcher.graph import Component, component
from auricle.launcher.model_folders import place_models
from auricle.launcher.serve import serve
from auricle.launcher.supervisor import Supervisor
from auricle.load.capacity_profile import CapacityProfile, PoolProfile
from auricle.load.pools import OPTIONAL_POOLS, POOLS, REQUIRED_POOLS
from auricle.load.reports import PoolKind
from auricle.process.device_faults import described, visible_gpus
from auricle.tools.load_generation.speakers import LoadInput
from auricle.tools.profiling.annotation_load import costs_of
from auricle.tools.profiling.annotation_pools import measure_annotations
from auricle.tools.profiling.levels import (
    Level,
    Progress,
    bar,
    beyond,
    costs,
    knee,
    ratios,
    without_request_lines,
)
from auricle.tools.profiling.machine_load import MachineLoad
from auricle.tools.profiling.ramp import Ramp

# Short segments and long ones, whose work has different proportions.
_SEGMENT_SECONDS = (2.5, 10.0)
_START_SECONDS = 900.0
_BEFORE_SECONDS = 2.0
_BUSY = "the profile shows too small a capacity: stop them and measure again"


@dataclass(frozen=True)
class Measured:
    """A pool's levels with their knees, in speakers; `streams` is the capacity of one worker."""

    levels: list[tuple[list[Level], float]]
    limit: float
    streams: dict[str, float]


async def profile(
    config: Path | None,
    overrides: Sequence[str],
    out: Path,
    audio: Sequence[Path],
    console: Console,
) -> None:
    """Measure encode, PD and annotation workers, and write the profile to `out`.

    `audio` are recordings of typical speech. Raises AuricleError if the graph does not start
    or a pool cannot be measured.
    """
    os.environ.setdefault("DYN_LOG", "error")  # for this process, which calls workers itself
    logging.basicConfig(level=logging.ERROR)
    sections = load_config(config, overrides)
    source = str(config or COMMAND_LINE)
    shown = partial(console.print, highlight=False)
    there = ("Processor", *(pool.component for pool in POOLS.values()))
    overrides = [*overrides, *place_models(there, sections, source, shown)]
    load, before = await others_before(shown)
    settings = settings_for("Processor", sections, source)
    together = processes_together(sections, source)
    recordings = await asyncio.to_thread(_recordings, settings, audio)
    checkpoint = await asyncio.to_thread(open_checkpoint, settings.model)
    graph = component("Processor").link(*(component(name) for name in together))
    with tempfile.TemporaryDirectory(prefix="auricle-profile-") as records:
        found_at = f"--Common.discovery_path={records}"
        async with _workers(graph, config, [*overrides, found_at], together, console) as supervisor:
            own = settings.model_copy(
                update={"discovery_path": Path(records), "load_report_seconds": 1.0}
            )
            with without_request_lines(), bar(console) as moved, load.named_in_errors():
                load_input = LoadInput(own, checkpoint, recordings)
                pd_workers = together["PdWorker"].processes
                measured = await _measure(load_input, pd_workers, console, moved)
                carried = await measure_annotations(load_input, shown)
            other_processes = load.during(before)
            pools = {
                **{p.kind: _profile(p.kind, measured[p.kind], supervisor) for p in REQUIRED_POOLS},
                **{
                    k: _annotation_profile(k, of, together, supervisor) for k, of in carried.items()
                },
            }
    encode, pd = (pools.pop(pool.kind) for pool in REQUIRED_POOLS)
    CapacityProfile(
        checkpoint=checkpoint.fingerprint,
        machine=_machine(pd_workers),
        date=datetime.now(UTC).date().isoformat(),
        encode_worker=encode,
        pd_worker=pd,
        pd_per_encode_worker=ratios(encode.streams, pd.streams),
        optional_pools={str(kind): own for kind, own in pools.items()},
        other_processes=other_processes,
    ).write(out)
    shown(f"profile written to {out}")
    if load.is_notable(other_processes.during):
        shown(f"while it was measured, {load.described(other_processes.during)}: {_BUSY}")


async def others_before(shown: Callable[[str], None]) -> tuple[MachineLoad, float]:
    """Return the machine's load, and the cores that other processes use before the start."""
    shown("measuring the load of other processes")
    load = MachineLoad()
    await asyncio.sleep(_BEFORE_SECONDS)
    others = load.others()
    shown(load.described(others) + (f": {_BUSY}" if load.is_notable(others) else ""))
    return load, others


def _profile(kind: PoolKind, found: Measured, supervisor: Supervisor) -> PoolProfile:
    pool = POOLS[kind]
    start_seconds = round(supervisor.start_seconds(pool.component), 1)
    return PoolProfile(costs(found.levels, pool.units), found.limit, start_seconds, found.streams)


def _annotation_profile(
    kind: PoolKind,
    carried: tuple[float, float],
    together: Mapping[str, Together],
    supervisor: Supervisor,
) -> PoolProfile:
    name = POOLS[kind].component
    at, limit = carried
    each = costs_of(at / together[name].processes)
    return PoolProfile(each, limit, round(supervisor.start_seconds(name), 1))


@dataclass(frozen=True)
class Together:
    """How many processes of a component share a device, and the GPUs they may have."""

    processes: int
    gpus: tuple[int, ...]

    def overrides(self, component: str) -> list[str]:
        """Return what starts these processes alone, on one device."""
        found = [f"--{component}.replicas={self.processes}"]
        return [*found, f"--{component}.gpus=[{self.gpus[0]}]"] if self.gpus else found


def processes_together(sections: Sections, source: str) -> dict[str, Together]:
    """Return the processes to measure together, by component: a worker with an engine carries less
    with other ones on its device."""
    common = settings_for("Processor", sections, source)
    there = [one for one in OPTIONAL_POOLS if one.there(common)]
    found = {}
    for pool in (*REQUIRED_POOLS, *there):
        own = settings_for(pool.component, sections, source)
        found[pool.component] = Together(getattr(own, "processes_per_device", 1), own.gpus)
    return found


async def _measure(
    source: LoadInput, pd_workers: int, console: Console, moved: Callable[[Progress], None]
) -> dict[PoolKind, Measured]:
    workers: dict[PoolKind, int] = {"encode_worker": 1, "pd_worker": pd_workers}
    runtime = Runtime(source.settings)
    ramp = Ramp(
        runtime,
        source,
        lambda line: console.print(line, highlight=False),
        moved,
        ramps=len(REQUIRED_POOLS) * len(_SEGMENT_SECONDS),
    )
    try:
        await ramp.ready()
        alone = await ramp.alone(_SEGMENT_SECONDS[-1])
        target = source.settings.target_chunk_ms / 1000
        found: dict[PoolKind, Measured] = {}
        for kind in (pool.kind for pool in REQUIRED_POOLS):
            # Divides the target between the pools in proportion to their unloaded times.
            limit = target * alone[kind] / sum(alone.values())
            measured = [await ramp.levels(kind, s, limit) for s in _SEGMENT_SECONDS]
            levels = [(of_segment, knee(of_segment, limit)) for of_segment in measured]
            streams = {
                f"{seconds:g}": round(at / workers[kind], 1)
                for seconds, (_, at) in zip(_SEGMENT_SECONDS, levels, strict=True)
            }
            found[kind] = Measured(levels, limit, streams)
            for (of_segment, _), (seconds, carried) in zip(levels, streams.items(), strict=True):
                least = "" if beyond(of_segment[-1], limit) else "at least "
                console.print(
                    f"{kind}: {least}{carried:.1f} speakers each, segments of {seconds} s, "
                    f"within {limit * 1000:.0f} ms",
                    highlight=False,
                )
        return found
    finally:
        await ramp.close()
        runtime.close()


@contextlib.asynccontextmanager
async def _workers(
    graph: Component,
    config: Path | None,
    overrides: Sequence[str],
    together: Mapping[str, Together],
    console: Console,
) -> AsyncGenerator[Supervisor, None]:
    """Run these workers, and a processor without sessions, until the block ends."""
    ready = asyncio.Event()
    supervisors: list[Supervisor] = []
    alone = [o for component, own in together.items() for o in own.overrides(component)]
    # Without PD workers embeddings are not read, and their leases must not fill the slab.
    leases = [f"--{name}.lease_seconds=1" for name in together if name.endswith("EncodeWorker")]
    alone += [*leases, "--Common.load_report_seconds=1"]
    alone += ["--Processor.replicas=1"]
    # Workers log each refusal beyond their knee, which is expected here.
    quiet = ["--Common.log_level=ERROR"]

    def on_status(process: str, status: str) -> None:
        if not ready.is_set():
            console.print(f"{process}: {status}", highlight=False)

    running = asyncio.create_task(
        serve(
            graph,
            config,
            [*quiet, *overrides, *alone],
            console=console,
            quiet=True,
            on_ready=lambda _url: ready.set(),
            on_supervisor=supervisors.append,
            on_status=on_status,
        )
    )
    waiting = asyncio.create_task(ready.wait())
    try:
        with console.status("starting the workers"):  # nothing without a terminal
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


def _machine(pd_workers: int) -> str:
    """Name the processors and GPUs, and how many PD processes share one of them."""
    parts = [platform.machine(), _processor_name(), described(visible_gpus())]
    if pd_workers > 1:
        parts.append(f"{pd_workers} PD processes on one device")
    return ", ".join(part for part in parts if part)
