"""Time to ready and memory of the default graph on this machine.

    python -m benchmarks.footprint [--starts 3]

Memory is the proportional set size of all processes together (shared pages
counted once), after one recording was transcribed live. The read time is measured by the PD
worker, from the NIXL request until the window is verified in the landing slab. The first words are
those of `auricle demo`, from the start of the command, its graph included.
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
    """Return how long `auricle demo` says that a newcomer waited for a word."""
    done = auricle("demo", "--port", "0", "--once")
    found = re.search(r"First words ([\d.]+) s after the command", done.stdout)
    if found is None:
        raise SystemExit(f"auricle demo showed no words:\n{done.stdout}{done.stderr}")
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=3)
    arguments = parser.parse_args()
    seconds: list[float] = []
    totals: list[float] = []
    reads: list[float] = []
    words: list[float] = []
    for _ in range(arguments.starts):
        with serving() as server:
            seconds.append(server.seconds_to_ready)
            asyncio.run(transcribe(server))
            sizes = memory_mib(server)
            totals.append(sum(sizes.values()))
            reads.append(mean_read_ms(server))
        words.append(seconds_to_first_words())
    for name, size in sizes.items():
        print(f"{name:32} {size:8.0f} MiB")
    print(f"seconds to ready: median {statistics.median(seconds):.1f} of {seconds}")
    print(f"seconds to the demo's first words: median {statistics.median(words):.1f} of {words}")
    print(f"mean NIXL read: median {statistics.median(reads):.2f} ms of {reads}")
    print(f"memory: median {statistics.median(totals):.0f} MiB")


if __name__ == "__main__":
    main()
