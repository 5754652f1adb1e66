"""Languages: whether each segment is written in its language, with a checkpoint of three languages.

    python -m benchmarks.languages --out FILE [--quick | --smoke]

Speakers take turns in one language or in two; each recording is transcribed twice, as fast as the
server takes it: with its language detected, and with `languages` set to the spoken ones. A few
minutes on two cores, `--quick` one.
"""

from __future__ import annotations

import asyncio

from auricle.audio.pcm import to_int16
from auricle.client import Client, Final
from auricle.client.options import StreamOptions
from auricle_testing.server import serving
from benchmarks.harness import Benchmark, Run, main
from benchmarks.languages.cases import Case, cases
from benchmarks.languages.figures import Segment, Transcribed, figures
from benchmarks.prepared import ROOT, corpus
from benchmarks.sessions import NOT_AHEAD, limited
from models.training.languages import codes

_MODEL = ROOT / "models/demo-en-de-es"
_AT_ONCE = 8


async def _segments(url: str, one: Case, *, named: bool) -> tuple[Segment, ...]:
    options = StreamOptions(partials=True)
    if named:
        options["languages"] = one.languages
    events = [event async for event in Client([url]).stream(to_int16(one.samples), **options)]
    return tuple(
        Segment(event.start_ms / 1000, event.end_ms / 1000, event.language, event.text)
        for event in events
        if isinstance(event, Final) and event.text
    )


def _languages(run: Run) -> dict[str, float]:
    spoken = {code: corpus("unseen", language=code) for code in codes()}

    async def transcribed(one: Case) -> Transcribed:
        detected = await _segments(server.url, one, named=False)
        return Transcribed(one, detected, await _segments(server.url, one, named=True))

    with serving(f"--Common.model={_MODEL}", NOT_AHEAD) as server:
        found = asyncio.run(limited(_AT_ONCE, cases(run.of(240, 60, 2), spoken), transcribed))
    run.extra["texts"] = [
        {"spoken": [(turn.language, turn.text) for turn in one.case.turns],
         "detected": [(segment.language, segment.text) for segment in one.detected],
         "named": [(segment.language, segment.text) for segment in one.named]}
        for one in found
    ]  # fmt: skip
    return figures(found)


BENCHMARK = Benchmark(description=__doc__, parts={"languages": _languages})

if __name__ == "__main__":
    main(BENCHMARK)
