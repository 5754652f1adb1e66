"""The same recordings by every way in: the command line, POST, live and realtime.

    python -m benchmarks.ways --out FILE [--quick | --smoke] [--minutes 28] [--resume]

Writes `{"figures": {name: number}, "environment": {…}, "texts": […]}`. All of it takes about
half an hour on two cores, `--quick` under five minutes. `--smoke` says only whether it runs.

With `--minutes` no recording is begun after that time; those left out are of all lengths
and kinds alike, and the very long ones first. What was heard is kept in FILE.heard, and
`--resume` goes on with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from auricle.audio.pcm import to_int16
from auricle_testing.server import serving
from benchmarks.streaming.audio import Recording
from benchmarks.streaming.environment import environment
from benchmarks.ways.audio import (
    FULL,
    QUICK,
    SMOKE,
    Scale,
    spoken_recordings,
    wordless_recordings,
)
from benchmarks.ways.figures import figures
from benchmarks.ways.kept import Kept, name_of
from benchmarks.ways.ways import WAYS

# Recordings at a time, half of them live: how fast these go on is up to the server (pace.py).
_AT_ONCE = 10
# Nobody yields to anybody: a session ahead of real time would skip grid points.
_NOT_AHEAD = "--Frontend.ahead_seconds=1000000"
Named = Mapping[str, Recording]


async def hear(url: str, recordings: Named, kept: Kept, until: float) -> None:
    """Every recording by every way, in order. None is begun after `until` (monotonic seconds)."""
    jobs = deque((way, name) for name in recordings for way in WAYS if (way, name) not in kept)
    total = len(jobs)

    async def work() -> None:
        while jobs and time.monotonic() < until:
            way, name = jobs.popleft()
            kept.add(way, name, await WAYS[way](url, to_int16(recordings[name].samples)))
            if len(jobs) % 40 == 0:
                print(f"{total - len(jobs)} of {total} begun", flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


def measure(
    scale: Scale, kept: Kept, minutes: float
) -> tuple[dict[str, float], list[dict[str, str]]]:
    """The figures of what all ways have heard, and every text where two of them differ."""
    spoken = {name_of(r.samples): r for r in spoken_recordings(scale)}
    silent = {name_of(r.samples): r for r in wordless_recordings(scale)}
    if minutes > 0:
        with serving(_NOT_AHEAD) as server:
            until = time.monotonic() + 60 * minutes
            asyncio.run(hear(server.url, spoken | silent, kept, until))
    heard, silence = (
        {name: r for name, r in some.items() if all((way, name) in kept for way in WAYS)}
        for some in (spoken, silent)
    )
    found = figures(
        list(heard.values()),
        {way: [kept[way, name] for name in heard] for way in WAYS},
        list(silence.values()),
        {way: [kept[way, name] for name in silence] for way in WAYS},
    )
    found["ways_left_out"] = float(len(spoken) - len(heard))
    texts = [
        {"said": " ".join(word.text for word in recording.words)}
        | {way: kept[way, name].text for way in WAYS}
        for name, recording in heard.items()
    ]
    return found, [row for row in texts if len({row[way] for way in WAYS}) > 1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--resume", action="store_true")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", dest="scale", action="store_const", const=QUICK)
    scale.add_argument("--smoke", dest="scale", action="store_const", const=SMOKE)
    parser.set_defaults(scale=FULL)
    arguments = parser.parse_args()
    kept = Kept(arguments.out.with_name(f"{arguments.out.name}.heard"), resume=arguments.resume)
    found, differing = measure(arguments.scale, kept, arguments.minutes)
    result = {"figures": found, "environment": environment(), "texts": differing}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for figure, value in sorted(found.items()):
        print(f"{figure:36} {value:.6g}")
    if arguments.scale is SMOKE:
        print("smoke: everything ran; the figures say nothing")


if __name__ == "__main__":
    main()
