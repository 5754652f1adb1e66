"""Transcripts from a client's own features compared with transcripts from samples.

    python -m benchmarks.log_mel [--recordings 400] [--out FILE]

Each recording is one synthetic sentence or two of the demo corpus (seed fixed); it is
sent as samples and as log-mel in float32 and float16, to one server.
"""

from __future__ import annotations

import argparse
import asyncio
import random

import jiwer

from auricle.audio.pcm import to_float, to_int16
from auricle.audio.segmentation import SegmentLimits
from auricle.client.stream import stream_file
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle_testing.server import Server, serving
from benchmarks.harness import Benchmark, Run, main
from benchmarks.prepared import corpus
from benchmarks.sessions import limited
from benchmarks.speech import Recording, spoken
from examples.log_mel_client import FeatureSender, speech, transcribe

_LIMITS = SegmentLimits.from_seconds(pause_after=3, maximum=20, search=3)
_OPTIONS = EndpointingOptions(0.5, 500, 300)
_AT_ONCE = 4


async def texts(server: Server, recording: Recording) -> tuple[str, str, str]:
    """Transcribe as samples, as float32 features and as float16 features."""
    pcm = to_int16(recording.samples)
    stream = stream_file(server.url, to_float(pcm), live=False)
    samples = [event async for event in stream][-1]["text"]
    pieces = list(speech(pcm, _OPTIONS))
    url = server.url.replace("http", "ws")
    found = [samples]
    for dtype in ("float32", "float16"):
        packets = list(FeatureSender(_LIMITS, dtype).packets(pieces))
        found.append(await transcribe(url, packets, dtype, partials=False))
    return found[0], found[1], found[2]


def figures(recordings: list[Recording], found: list[tuple[str, str, str]]) -> dict[str, float]:
    """Return the shares of identical transcripts, and word error rates."""
    words = [recording.text for recording in recordings]
    rates = [jiwer.wer(words, [text[i] for text in found]) for i in range(3)]
    return {
        "recordings": float(len(recordings)),
        "identical_float32": sum(a == b for a, b, _ in found) / len(found),
        "identical_float16": sum(a == c for a, _, c in found) / len(found),
        "wer_samples": rates[0],
        "wer_float16_minus_samples": rates[2] - rates[0],
    }


def _log_mel(run: Run) -> dict[str, float]:
    voices, dice = corpus("seen"), random.Random(0)
    recordings = [spoken(voices, dice, 3.0, (0.3, 1.0)) for _ in range(run.arguments.recordings)]
    with serving() as server:
        found = asyncio.run(limited(_AT_ONCE, recordings, lambda one: texts(server, one)))
    return figures(recordings, found)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recordings", type=int, default=400)


BENCHMARK = Benchmark(
    description=__doc__, parts={"log_mel": _log_mel}, arguments=_arguments, sizes=(), out="optional"
)

if __name__ == "__main__":
    main(BENCHMARK)
