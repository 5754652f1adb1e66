"""The same recordings through the command line, POST, live and realtime.

    python -m benchmarks.ways --out FILE [--quick | --smoke] [--minutes 28] [--resume]

All of it takes about half an hour on two cores, `--quick` under five minutes.

With `--minutes` no recording begins after that time; the ones left out are of all lengths and kinds
alike, and the very long ones first. Transcripts are kept in FILE.heard, and `--resume` continues
with them.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import math
import time
from collections import deque
from collections.abc import Mapping

import msgspec
import numpy as np

from auricle.audio.pcm import to_int16
from auricle_testing.server import serving
from benchmarks.harness import Benchmark, Journal, Run, main
from benchmarks.sessions import NOT_AHEAD
from benchmarks.speech import Recording, Samples
from benchmarks.ways.audio import SCALES, spoken_recordings, wordless_recordings
from benchmarks.ways.figures import figures
from benchmarks.ways.ways import WAYS, Transcript

# Concurrent recordings, half of them live, whose pace follows the server (pace.py).
_AT_ONCE = 10
Named = Mapping[str, Recording]
Key = tuple[str, str]  # way and recording


def _name(samples: Samples) -> str:
    return hashlib.sha256(np.ascontiguousarray(samples)).hexdigest()[:16]


async def _transcribe(
    url: str, recordings: Named, known: dict[Key, Transcript], journal: Journal, until: float
) -> None:
    """Transcribe every recording by every way, in order; begin none after `until` (monotonic)."""
    jobs = deque((way, name) for name in recordings for way in WAYS if (way, name) not in known)
    total = len(jobs)

    async def work() -> None:
        while jobs and time.monotonic() < until:
            way, name = jobs.popleft()
            found = await WAYS[way](url, to_int16(recordings[name].samples))
            known[way, name] = found
            journal.add({"way": way, "recording": name, "heard": msgspec.to_builtins(found)})
            if len(jobs) % 40 == 0:
                print(f"{total - len(jobs)} of {total} begun", flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


def _ways(run: Run) -> dict[str, float]:
    assert run.out is not None
    scale = SCALES[run.size]
    spoken = {_name(r.samples): r for r in spoken_recordings(scale)}
    wordless = {_name(r.samples): r for r in wordless_recordings(scale)}
    journal, known = Journal(run.out.with_name(f"{run.out.name}.heard")), dict[Key, Transcript]()
    if run.arguments.resume and journal.path.exists():
        for row in journal.rows():
            known[row["way"], row["recording"]] = msgspec.convert(row["heard"], Transcript)
    else:
        journal.begin()
    if run.arguments.minutes > 0:
        with serving(NOT_AHEAD) as server:
            until = time.monotonic() + 60 * run.arguments.minutes
            asyncio.run(_transcribe(server.url, spoken | wordless, known, journal, until))
    done, silent = (
        {name: r for name, r in some.items() if all((way, name) in known for way in WAYS)}
        for some in (spoken, wordless)
    )
    found = figures(
        list(done.values()),
        {way: [known[way, name] for name in done] for way in WAYS},
        list(silent.values()),
        {way: [known[way, name] for name in silent] for way in WAYS},
    )
    texts = [
        {"spoken": recording.text} | {way: known[way, name].text for way in WAYS}
        for name, recording in done.items()
    ]
    run.extra["texts"] = [row for row in texts if len({row[way] for way in WAYS}) > 1]
    return found | {"ways_left_out": float(len(spoken) - len(done))}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--resume", action="store_true")


BENCHMARK = Benchmark(description=__doc__, parts={"ways": _ways}, arguments=_arguments)

if __name__ == "__main__":
    main(BENCHMARK)
