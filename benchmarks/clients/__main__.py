"""Each protocol with its official client: texts, latency and CPU, compared with our own protocol.

    python -m benchmarks.clients --out FILE [--quick | --smoke]

All protocols of a round get the same recordings, in random order, on one graph. Takes twenty
minutes on two cores, `--quick` eight.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from auricle.audio.pcm import Int16, to_int16
from benchmarks.clients import assemblyai, telephones, triton, ways
from benchmarks.clients.figures import Row, figures
from benchmarks.clients.places import Places, places
from benchmarks.clients.speaking import SECONDS
from benchmarks.harness import Benchmark, Run, main, note
from benchmarks.prepared import corpus
from benchmarks.speech import spoken

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
_PAUSES = (0.05, 0.3)  # too short to end a segment


async def _measured(way: ways.Way, there: Places, recordings: Sequence[Int16]) -> Row:
    """Run a session for each recording at once."""
    before = there.cpu_seconds()
    async with asyncio.timeout(SECONDS):
        outcomes = await asyncio.gather(*(way(there, pcm) for pcm in recordings))
    return Row(tuple(outcomes), (there.cpu_seconds() - before) / len(recordings))


def _recordings(run: Run, number: int) -> list[Int16]:
    dice = random.Random(number)
    low, high = (2.0, 3.0) if run.size == "smoke" else (4.0, 7.0)
    return [
        to_int16(spoken(corpus("seen"), dice, dice.uniform(low, high), _PAUSES).samples)
        for _ in range(run.of(4, 4))
    ]


async def _rounds(there: Places, run: Run) -> list[dict[str, Row]]:
    """The first round is a warm-up, and is dropped unless it is the only one."""
    rows: list[dict[str, Row]] = []
    count = run.of(9, 3)
    count += count > 1
    for number in range(count):
        order = random.Random(number).sample(sorted(WAYS), len(WAYS))
        recordings = _recordings(run, number)
        rows.append({name: await _measured(WAYS[name], there, recordings) for name in order})
        note(f"round {number + 1} of {count}")
    return rows[1:] or rows


def _clients(run: Run) -> dict[str, float]:
    with places() as there:
        rows = asyncio.run(_rounds(there, run))
    run.extra["texts"] = [
        {way: [outcome.text for outcome in row.outcomes] for way, row in one.items()}
        for one in rows
    ]
    return figures(rows)


BENCHMARK = Benchmark(description=__doc__, parts={"clients": _clients})

if __name__ == "__main__":
    main(BENCHMARK)
