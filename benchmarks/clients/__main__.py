"""Each way in with its official client: the same words, how soon, and what they cost.

    python -m benchmarks.clients --out FILE [--quick | --smoke]

All ways of a round get the same recordings, in turns of changing order, on one graph. Takes
twenty minutes on two cores, `--quick` eight.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Sequence

from auricle.audio.pcm import Int16, to_int16
from benchmarks import results
from benchmarks.clients import assemblyai, telephones, triton, ways
from benchmarks.clients.figures import Row, figures
from benchmarks.clients.places import Places, places
from benchmarks.clients.speaking import SECONDS
from benchmarks.prepared import corpus
from benchmarks.streaming.audio import spoken

WAYS: dict[str, ways.Way] = {
    "stream": ways.stream,
    "stream_then_silence": ways.stream_then_silence,
    "stream_8k": telephones.stream_8k,
    "stream_mu_law": telephones.stream_mu_law,
    "file": ways.file,
    "openai_realtime": ways.openai_realtime,
    "openai_realtime_sooner": ways.openai_realtime_sooner,
    "openai_transcriptions": ways.openai_transcriptions,
    "deepgram_live": ways.deepgram_live,
    "deepgram_turns": ways.deepgram_turns,
    "deepgram_recording": ways.deepgram_recording,
    "assemblyai_turns": assemblyai.assemblyai_turns,
    "riva_live": ways.riva_live,
    "riva_recording": ways.riva_recording,
    "triton_live": triton.triton_live,
    "triton_recording": triton.triton_recording,
    "wyoming": ways.wyoming,
    "twilio": telephones.twilio,
    "audiosocket": telephones.audiosocket,
    "vapi": telephones.vapi,
}
_ROUNDS = {"full": 9, "quick": 3, "smoke": 1}
_AT_ONCE = {"full": 4, "quick": 4, "smoke": 1}
_LENGTHS = {"full": (4.0, 7.0), "quick": (4.0, 7.0), "smoke": (2.0, 3.0)}
_PAUSES = (0.05, 0.3)  # none of them ends a segment


async def _measured(way: ways.Way, there: Places, said: Sequence[Int16]) -> Row:
    """Have all recordings heard at once."""
    before = there.cpu_seconds()
    async with asyncio.timeout(SECONDS):
        heard = await asyncio.gather(*(way(there, pcm) for pcm in said))
    return Row(tuple(heard), (there.cpu_seconds() - before) / len(said))


def _recordings(size: str, number: int) -> list[Int16]:
    dice = random.Random(number)
    low, high = _LENGTHS[size]
    return [
        to_int16(spoken(corpus("seen"), dice, dice.uniform(low, high), _PAUSES).samples)
        for _ in range(_AT_ONCE[size])
    ]


async def _rounds(there: Places, size: str) -> list[dict[str, Row]]:
    """The first round warms everything up, and is dropped unless it is the only one."""
    rows: list[dict[str, Row]] = []
    count = _ROUNDS[size]
    for number in range(count + (count > 1)):
        order = random.Random(number).sample(sorted(WAYS), len(WAYS))
        said = _recordings(size, number)
        rows.append({name: await _measured(WAYS[name], there, said) for name in order})
        print(f"round {number + 1} of {count + (count > 1)}", file=sys.stderr, flush=True)
    return rows[1:] or rows


def main() -> None:
    """See the module."""
    arguments = results.parser(__doc__).parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with places() as there:
        rows = asyncio.run(_rounds(there, arguments.scale))
    found = figures(rows)
    texts = [{way: [h.text for h in row.heard] for way, row in one.items()} for one in rows]
    results.write(arguments.out, {"figures": found, "texts": texts})
    results.tell({n: value for n, value in found.items() if not n.endswith(("_low", "_high"))})


if __name__ == "__main__":
    main()
