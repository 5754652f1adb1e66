"""The same recordings by every way in: the command line, POST, live and realtime.

    python -m benchmarks.ways --out FILE [--quick | --smoke]

Writes `{"figures": {name: number}, "environment": {…}, "texts": […]}`. All of it takes under an
hour on two cores, `--quick` under five minutes. `--smoke` says only whether it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from auricle.audio.pcm import to_int16
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
from benchmarks.ways.figures import ByWay, figures
from benchmarks.ways.ways import WAYS, Heard, Way
from tests.server import serving

# Live recordings at a time: with `SPEED`, twelve sessions' worth of audio.
_AT_ONCE = 3
# Nobody yields to anybody: a session ahead of real time would skip grid points.
_NOT_AHEAD = "--Frontend.ahead_seconds=1000000"


async def hear(url: str, recordings: Sequence[Recording]) -> ByWay:
    """Every recording by every way, one way after the other."""
    heard: dict[str, list[Heard]] = {}
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(way: Way, recording: Recording) -> Heard:
        async with room:
            return await way(url, to_int16(recording.samples))

    for name, way in WAYS.items():
        heard[name] = list(await asyncio.gather(*(one(way, r) for r in recordings)))
        print(f"{name}: {len(recordings)} recordings", flush=True)
    return heard


def measure(scale: Scale) -> tuple[dict[str, float], list[dict[str, str]]]:
    """The figures, and every text where two ways differ."""
    recordings, silent = spoken_recordings(scale), wordless_recordings(scale)
    with serving(_NOT_AHEAD) as server:
        heard = asyncio.run(hear(server.url, recordings))
        silence = asyncio.run(hear(server.url, silent))
    texts = [
        {"said": " ".join(word.text for word in recording.words)}
        | {way: heard[way][at].text for way in WAYS}
        for at, recording in enumerate(recordings)
    ]
    differing = [row for row in texts if len({row[way] for way in WAYS}) > 1]
    return figures(recordings, heard, silent, silence), differing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", dest="scale", action="store_const", const=QUICK)
    scale.add_argument("--smoke", dest="scale", action="store_const", const=SMOKE)
    parser.set_defaults(scale=FULL)
    arguments = parser.parse_args()
    found, differing = measure(arguments.scale)
    result = {"figures": found, "environment": environment(), "texts": differing}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for figure, value in sorted(found.items()):
        print(f"{figure:36} {value:.6g}")
    if arguments.scale is SMOKE:
        print("smoke: everything ran; the figures say nothing")


if __name__ == "__main__":
    main()
