"""Keywords: how often unspoken ones appear in the text, and the recall that spoken ones gain.

    python -m benchmarks.keywords --out FILE [--quick | --smoke] [--voices unseen | seen]

Each recording is transcribed three times, as fast as the server takes it: without keywords, with
them, and with them by a server without its guard (`Processor.context_guard: false`). Three minutes
on two cores, `--quick` one.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from auricle.audio.pcm import to_int16
from auricle.client import Client, Done
from auricle_testing.server import serving
from benchmarks.harness import Benchmark, Run, main
from benchmarks.keywords.figures import Written, figures
from benchmarks.keywords.recordings import Case, cases
from benchmarks.prepared import corpus
from benchmarks.sessions import NOT_AHEAD, limited

_AT_ONCE = 8


def _texts(url: str, some: Sequence[Case], *, with_keywords: bool) -> list[str]:
    async def transcribed(one: Case) -> str:
        context = ", ".join(one.keywords) if with_keywords else ""
        samples = to_int16(one.recording.samples)
        async for event in Client([url]).stream(samples, partials=True, context=context):
            if isinstance(event, Done):
                return event.text
        raise RuntimeError("the session ended without a text")

    return asyncio.run(limited(_AT_ONCE, some, transcribed))


def _keywords(run: Run) -> dict[str, float]:
    voices = run.arguments.voices
    some = cases(voices, run.of(600, 120, 4), corpus(voices))
    with serving(NOT_AHEAD) as server:
        without = _texts(server.url, some, with_keywords=False)
        guarded = _texts(server.url, some, with_keywords=True)
    with serving(NOT_AHEAD, "--Processor.context_guard=false") as server:
        unguarded = _texts(server.url, some, with_keywords=True)
    written = [
        Written(tuple(w.text for w in one.recording.words), one.keywords, one.spoken, *texts)
        for one, *texts in zip(some, without, guarded, unguarded, strict=True)
    ]
    run.extra["voices"] = voices
    run.extra["texts"] = [
        {"spoken": " ".join(one.spoken), "keywords": one.keywords, "without": one.without,
         "guarded": one.guarded, "unguarded": one.unguarded}
        for one in written
    ]  # fmt: skip
    return figures(written)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--voices", choices=("unseen", "seen"), default="unseen")


BENCHMARK = Benchmark(description=__doc__, parts={"keywords": _keywords}, arguments=_arguments)

if __name__ == "__main__":
    main(BENCHMARK)
