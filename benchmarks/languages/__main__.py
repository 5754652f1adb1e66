"""Whether each segment is in the language that was spoken, and its words, in a checkpoint of three.

    python -m benchmarks.languages --out FILE [--quick | --smoke]

Speakers take turns in one language or in two; each recording is heard twice, live and as fast as
the server takes it: with its language detected, and with `languages` those that are spoken. A few
minutes on two cores, `--quick` one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from auricle.audio.pcm import to_int16
from auricle.client import Client, Final
from auricle.client.options import StreamOptions
from auricle_testing.server import serving
from benchmarks import results
from benchmarks.languages.cases import Case, cases
from benchmarks.languages.figures import Heard, Segment, figures
from benchmarks.prepared import ROOT, corpus
from models.training.languages import codes

_MODEL = ROOT / "models/demo-en-de-es"
_COUNTS = {"full": 240, "quick": 60, "smoke": 2}
_AT_ONCE = 8
# Nobody yields to anybody, so that what is heard does not depend on the load.
_SETTINGS = (f"--Common.model={_MODEL}", "--Frontend.ahead_seconds=1000000")


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


async def _heard(url: str, asked: Sequence[Case]) -> list[Heard]:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(one: Case) -> Heard:
        async with turns:
            detected = await _segments(url, one, named=False)
            return Heard(one, detected, await _segments(url, one, named=True))

    return await asyncio.gather(*map(in_turn, asked))


def main() -> None:
    """See the module."""
    arguments = results.parser(__doc__).parse_args()
    spoken = {code: corpus("unseen", language=code) for code in codes()}
    with serving(*_SETTINGS) as server:
        heard = asyncio.run(_heard(server.url, cases(_COUNTS[arguments.scale], spoken)))
    found = figures(heard)
    texts = [
        {"said": [(turn.language, turn.text) for turn in one.case.turns],
         "detected": [(segment.language, segment.text) for segment in one.detected],
         "named": [(segment.language, segment.text) for segment in one.named]}
        for one in heard
    ]  # fmt: skip
    results.write(arguments.out, {"figures": found, "texts": texts})
    results.tell(found)


if __name__ == "__main__":
    main()
