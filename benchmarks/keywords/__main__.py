"""Whether keywords that were not said appear in the text, and what those that were said gain.

    python -m benchmarks.keywords --out FILE [--quick | --smoke] [--voices unseen | seen]

Each recording is heard three times, live and as fast as the server takes it: without keywords, with
them, and with them by a server without its guard (`Processor.context_guard: false`). Three minutes
on two cores, `--quick` one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from auricle.audio.pcm import to_int16
from auricle.client import Client, Done
from auricle_testing.server import serving
from benchmarks import results
from benchmarks.keywords.figures import Written, figures
from benchmarks.keywords.recordings import Case, cases
from benchmarks.prepared import corpus

_COUNTS = {"full": 600, "quick": 120, "smoke": 4}
_AT_ONCE = 8
# Nobody yields to anybody, so that what is heard does not depend on the load.
_SETTINGS = ("--Frontend.ahead_seconds=1000000",)


async def _heard(url: str, one: Case, with_keywords: bool) -> str:
    context = ", ".join(one.keywords) if with_keywords else ""
    samples = to_int16(one.recording.samples)
    async for event in Client([url]).stream(samples, partials=True, context=context):
        if isinstance(event, Done):
            return event.text
    raise RuntimeError("the session ended without a text")


async def _all(url: str, asked: Sequence[Case], with_keywords: bool) -> list[str]:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(one: Case) -> str:
        async with turns:
            return await _heard(url, one, with_keywords)

    return await asyncio.gather(*map(in_turn, asked))


def _written(asked: Sequence[Case]) -> list[Written]:
    with serving(*_SETTINGS) as server:
        without = asyncio.run(_all(server.url, asked, with_keywords=False))
        guarded = asyncio.run(_all(server.url, asked, with_keywords=True))
    with serving(*_SETTINGS, "--Processor.context_guard=false") as server:
        unguarded = asyncio.run(_all(server.url, asked, with_keywords=True))
    return [
        Written(tuple(w.text for w in one.recording.words), one.keywords, one.said, *texts)
        for one, *texts in zip(asked, without, guarded, unguarded, strict=True)
    ]


def main() -> None:
    """See the module."""
    parser = results.parser(__doc__)
    parser.add_argument("--voices", choices=("unseen", "seen"), default="unseen")
    arguments = parser.parse_args()
    written = _written(cases(arguments.voices, _COUNTS[arguments.scale], corpus(arguments.voices)))
    found = figures(written)
    result = {
        "figures": found,
        "voices": arguments.voices,
        "texts": [
            {"said": " ".join(one.said), "keywords": one.keywords, "without": one.without,
             "guarded": one.guarded, "unguarded": one.unguarded}
            for one in written
        ],
    }  # fmt: skip
    results.write(arguments.out, result)
    results.tell(found)


if __name__ == "__main__":
    main()
