"""Time to ready and memory of the default graph on this machine.

    python -m benchmarks.footprint [--starts 3]

Figures are medians. Memory is the proportional set size of all processes together (shared pages
counted once), after one recording was transcribed live. The PD worker measures the read time, from
the NIXL request until the window is verified in its slab. The first words are shown by `auricle
demo`, whose time runs from the start of the command and includes its graph.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics

import psutil

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.commands import auricle
from auricle_testing.server import Server, serving
from benchmarks.harness import Benchmark, Run, main


def memory_mib(server: Server) -> dict[str, float]:
    """Return the proportional set size per process, in MiB."""
    sizes: dict[str, float] = {}
    for process in server.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            command = process.cmdline()
            at = command.index("component") + 1 if "component" in command else None
            name = command[at] if at else (command[0].split("/")[-1] or process.name())
            sizes[f"{name} ({process.pid})"] = process.memory_full_info().pss / 2**20
    return sizes


async def transcribe(server: Server) -> None:
    """Transcribe one bundled recording through the whole graph, in real time."""
    async for _ in stream_file(server.url, recordings.samples("market"), live=True):
        pass


def mean_read_ms(server: Server) -> float:
    """Return the mean time of all reads, in ms."""
    metric = "auricle_pd_worker_read_seconds"
    total = server.metric("PdWorker", f"{metric}_sum")
    return 1000 * total / server.metric("PdWorker", f"{metric}_count")


def seconds_to_first_words() -> float:
    """Return the time to the first word that `auricle demo` reports."""
    done = auricle("demo", "--port", "0", "--once")
    found = re.search(r"First words ([\d.]+) s after the command", done.stdout)
    if found is None:
        raise SystemExit(f"auricle demo showed no words:\n{done.stdout}{done.stderr}")
    return float(found[1])


def _footprint(run: Run) -> dict[str, float]:
    ready, totals, reads, words = list[float](), list[float](), list[float](), list[float]()
    for _ in range(run.arguments.starts):
        with serving() as server:
            ready.append(server.seconds_to_ready)
            asyncio.run(transcribe(server))
            sizes = memory_mib(server)
            totals.append(sum(sizes.values()))
            reads.append(mean_read_ms(server))
        words.append(seconds_to_first_words())
    for name, size in sizes.items():
        print(f"{name:32} {size:8.0f} MiB")
    measured = {
        "seconds_to_ready": ready,
        "seconds_to_first_words": words,
        "mean_nixl_read_ms": reads,
        "memory_mib": totals,
    }
    for name, values in measured.items():
        print(f"{name}: {[round(value, 2) for value in values]}")
    return {name: statistics.median(values) for name, values in measured.items()}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--starts", type=int, default=3)


BENCHMARK = Benchmark(
    description=__doc__, parts={"footprint": _footprint}, arguments=_arguments, sizes=(),
    out="optional",
)  # fmt: skip

if __name__ == "__main__":
    main(BENCHMARK)
