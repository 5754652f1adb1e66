"""128 one-hour uploads in progress, with live sessions on the same frontend.

    python -m benchmarks.frontdoor --out FILE [--uploads 128] [--live 2] [--seconds 60]

The phases, each on its own server: live sessions alone; live sessions with the uploads; and
the same with recordings decoded on the frontend's event loop. `--sweep` also varies the number
of decoding processes. Uploads are cancelled at the end of a phase, which then checks that no
recording is left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import soundfile

from auricle.audio.pcm import Int16, to_int16
from auricle_testing import recordings
from auricle_testing.scraping import scraped, values
from auricle_testing.server import READY_SECONDS, ROOT, Server, free_port, serving
from benchmarks.frontdoor.probes import health, live_lag
from benchmarks.harness import Benchmark, Run, main
from benchmarks.statistics import percentile

# As in the SLO of live sessions: the time of a text beyond its chunk.
_INSIDE_SECONDS = 0.3
_CONFIG = "configs/demo.yaml"
_SWEEP_SECONDS = 30.0


@dataclass(frozen=True)
class Phase:
    """The results of a phase: /health in ms, lags in seconds, transcribed audio in seconds."""

    health_ms: list[float]
    lags: list[float]
    transcribed: float = 0.0
    seconds_to_send: float = 0.0
    left_behind: int = 0


def speech() -> Int16:
    """Return the bundled recordings with pauses between them."""
    gap = np.zeros(12_000, np.float32)
    parts = [part for name in recordings.NAMES for part in (recordings.samples(name), gap)]
    return to_int16(np.concatenate(parts))


def hour(directory: Path) -> Path:
    """Write an hour of this speech as Ogg Vorbis."""
    path = directory / "hour.ogg"
    audio = np.resize(speech(), 3_600 * 16_000)
    with soundfile.SoundFile(path, "w", 16_000, 1, format="OGG", subtype="VORBIS") as file:
        for at in range(0, len(audio), 160_000):  # libsndfile overflows on one large block
            file.write(audio[at : at + 160_000])
    return path


async def watched(url: str, live: int, seconds: float) -> tuple[list[float], list[float]]:
    """Probe /health and `live` sessions for that time."""
    audio = speech()
    probes = [live_lag(url, np.roll(audio, i * 50_000), seconds) for i in range(live)]
    took, *lags = await asyncio.gather(health(url, seconds), *probes)
    return took, [lag for one in lags for lag in one]


async def phase(
    server: Server,
    url: str,
    file: Path | None,
    arguments: argparse.Namespace,
    seconds: float | None = None,
) -> Phase:
    """Run one phase, with uploads of `file` if it is given."""
    live, uploads = arguments.live, arguments.uploads
    seconds = seconds or arguments.seconds
    await watched(url, live, 5.0)  # warm-up
    if file is None:
        return Phase(*await watched(url, live, seconds))
    command = [sys.executable, "-m", "benchmarks.frontdoor.uploads"]
    process = await asyncio.create_subprocess_exec(
        *command, f"{url}/v1/audio/transcriptions", str(file), str(uploads),
        stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    began = time.monotonic()
    sent = asyncio.create_task(_sent(process, began))
    before = server.metric("Processor", "auricle_processor_audio_seconds_total")
    took, lags = await watched(url, live, seconds)
    transcribed = server.metric("Processor", "auricle_processor_audio_seconds_total") - before
    process.send_signal(signal.SIGTERM)
    to_send = await sent
    await process.wait()
    return Phase(took, lags, transcribed - live * seconds, to_send, await _left(url))


async def _sent(process: asyncio.subprocess.Process, began: float) -> float:
    """Return the seconds until all bodies were sent; infinite if they were not."""
    assert process.stdout is not None
    seconds = float("inf")
    async for line in process.stdout:
        if line.strip() == b"sent":
            seconds = time.monotonic() - began
        elif line.startswith(b"ended") and line.split()[1] != b"0":
            print("uploads ended before they were cancelled:", line.decode().strip())
    return seconds


async def _left(url: str) -> int:
    """Return the recordings still in progress seconds after their uploads were cancelled."""
    for _ in range(100):
        samples = await asyncio.to_thread(scraped, url, 10.0)
        (left,) = values(samples, "auricle_frontend_recordings")
        if left == 0:
            return 0
        await asyncio.sleep(0.1)
    return int(left)


@contextlib.asynccontextmanager
async def frontend_on_loop(server: Server) -> AsyncIterator[str]:
    """Start a second frontend of the graph, which decodes on its loop; yield its address."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.frontdoor.on_loop", "-f", _CONFIG),
        f"--Frontend.port={port}",
        f"--Common.discovery_path={server.discovery}",
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(timeout=5.0) as client:
            deadline = time.monotonic() + READY_SECONDS
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"{url}/health")).status_code == 200:
                        break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the second frontend was not ready in {READY_SECONDS:g} s")
                await asyncio.sleep(0.2)
        yield url
    finally:
        process.terminate()
        await process.wait()


def decoding_processes(server: Server) -> int:
    """Return the processes that are decoding recordings."""
    frontend = server.component("Frontend")
    return sum(len(child.children()) for child in frontend.children())


def inside(lags: list[float]) -> float:
    """Return the share of texts inside the SLO of live sessions."""
    return sum(lag <= _INSIDE_SECONDS for lag in lags) / len(lags)


def _uploads(run: Run) -> dict[str, float]:
    """Run all phases."""
    arguments, found = run.arguments, dict[str, float]()
    with tempfile.TemporaryDirectory() as directory:
        file = hour(Path(directory))
        with serving() as server:
            phases = {
                "_alone": asyncio.run(phase(server, server.url, None, arguments)),
                "": asyncio.run(phase(server, server.url, file, arguments)),
            }
            found["decoding_processes_left"] = decoding_processes(server)
            frontend = server.component("Frontend")
            found["frontend_memory_mib"] = frontend.memory_info().rss / 2**20
            found["open_files_left"] = sum("/tmp" in f.path for f in frontend.open_files())
            phases["_on_loop"] = asyncio.run(_on_loop(server, file, arguments))
        for count in arguments.sweep:
            seconds = min(_SWEEP_SECONDS, arguments.seconds)
            with serving(f"--Frontend.decoding_processes={count}") as server:
                one = asyncio.run(phase(server, server.url, file, arguments, seconds))
            found[f"recordings_speed_{count}_processes"] = one.transcribed / seconds
            found[f"live_lag_p95_s_{count}_processes"] = percentile(one.lags, 0.95)
            found[f"health_p99_ms_{count}_processes"] = percentile(one.health_ms, 0.99)
    alone, with_uploads = phases["_alone"], phases[""]
    for suffix, one in phases.items():
        lag = percentile(one.lags, 0.95)
        found[f"health_p99{suffix}_ms"] = percentile(one.health_ms, 0.99)
        found[f"live_slo_share{suffix}"] = inside(one.lags)
        found[f"live_lag_p95{suffix}_s"] = lag
        if one is not alone:
            found[f"live_lag_p95_growth{suffix}"] = lag / percentile(alone.lags, 0.95)
    return found | {
        "recordings_speed": with_uploads.transcribed / arguments.seconds,
        "seconds_to_send_all": with_uploads.seconds_to_send,
        "recordings_left": with_uploads.left_behind,
    }


async def _on_loop(server: Server, file: Path, arguments: argparse.Namespace) -> Phase:
    async with frontend_on_loop(server) as url:
        return await phase(server, url, file, arguments)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--uploads", type=int, default=128)
    parser.add_argument("--live", type=int, default=2, help="live sessions")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sweep", type=int, nargs="*", default=[], metavar="PROCESSES")


BENCHMARK = Benchmark(
    description=__doc__, parts={"uploads": _uploads}, arguments=_arguments, sizes=()
)

if __name__ == "__main__":
    main(BENCHMARK)
