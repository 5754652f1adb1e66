"""`auricle transcribe FOLDER` with words and speakers, compared with the rate of the server.

    python -m benchmarks.many_recordings --out build/many-recordings.json [--quick]

500 recordings of 5 s, cut from recordings of people, and one that cannot be decoded, are given to
one command on a graph of tiny.en with word times and speakers. Before and after it, other pieces of
the same recordings are posted with 1, 2, 4 and 8 requests at a time, by a client that only posts;
its fastest rate is the capacity. No piece is sent twice, so no cache has its windows.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import soundfile

from auricle_testing.commands import auricle
from auricle_testing.server import AS_DELIVERED, serving
from benchmarks.harness import Benchmark, Run, main
from benchmarks.peers.speech import Recordings
from benchmarks.real_speech import corpus

MODEL = "whisper-tiny.en"
_SECONDS = 5.0
_AT_A_TIME = (1, 2, 4, 8)
_BROKEN = "broken.flac"
_GRAPH = (
    *AS_DELIVERED,
    f"--Common.model={MODEL}",
    f"--Common.align_model={MODEL}",
    "--Common.speaker_model=models/speakers",
)
# The fields with which `auricle transcribe --words --speakers` posts a recording.
_FORM = {
    "model": MODEL,
    "response_format": "verbose_json",
    "timestamp_granularities[]": "word",
    "speakers": "true",
}


def pieces() -> Iterator[Path]:
    """Write pieces of _SECONDS, each louder or softer than all others, and yield their paths."""
    with tempfile.TemporaryDirectory() as folder:
        speech = Recordings(corpus.recordings("people"), seed=1)
        length = round(_SECONDS * corpus.SAMPLE_RATE)
        for number in itertools.count():
            pcm = speech.next().pcm
            for at in range(0, len(pcm) - length + 1, length):
                path = Path(folder) / f"{number}-{at}.wav"
                soundfile.write(path, pcm[at : at + length], corpus.SAMPLE_RATE)
                yield path


async def _posted(url: str, paths: Sequence[Path], at_a_time: int) -> float:
    """Return the recordings per second with `at_a_time` requests in progress."""
    left = iter(paths)

    async def requests(client: httpx.AsyncClient) -> None:
        for path in left:
            file = {"file": (path.name, path.read_bytes())}
            answer = await client.post("/v1/audio/transcriptions", data=_FORM, files=file)
            answer.raise_for_status()

    began = time.monotonic()
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        await asyncio.gather(*(requests(client) for _ in range(at_a_time)))
    return len(paths) / (time.monotonic() - began)


def _rates(url: str, some: Iterator[Path], count: int) -> dict[int, float]:
    """Return the recordings per second by the number of requests at a time."""
    return {
        at_a_time: asyncio.run(_posted(url, [*itertools.islice(some, count)], at_a_time))
        for at_a_time in _AT_A_TIME
    }


def _command(url: str, some: Iterator[Path], count: int) -> dict[str, float]:
    """Return the recordings per second of one command, and its omissions."""
    with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as out:
        for path in itertools.islice(some, count):
            path.rename(Path(source) / path.name)
        (Path(source) / _BROKEN).write_bytes(b"no recording")
        began = time.monotonic()
        done = auricle(
            *("transcribe", source, "--out", out, "--format", "json,txt", "--url", url),
            *("--words", "--speakers"),
            seconds=3600,
        )
        seconds = time.monotonic() - began
        results = [json.loads(path.read_text()) for path in Path(out).glob("*.json")]
        print(done.stderr[-2000:])
    spoken = [one for one in results if one["text"].strip()]
    named = [line for line in done.stderr.splitlines() if _BROKEN in line]
    return {
        "rate": count / seconds,
        "transcribed": len(results),
        "without_words": sum(not one["words"] for one in spoken),
        "without_speakers": sum(not one["speakers"] for one in spoken),
        "broken_named": len(named),
        "exit_status": done.returncode,
    }


def _many(run: Run) -> dict[str, object]:
    count, posted = run.of(500, 60, 4), run.of(40, 16, 2)
    some = pieces()
    with serving(
        *_GRAPH, graph="graphs.e_pd_align_diarize:Frontend", config="configs/whisper.yaml"
    ) as server:
        asyncio.run(_posted(server.url, [*itertools.islice(some, 4)], 1))  # first use of all shapes
        before = _rates(server.url, some, posted)
        command = _command(server.url, some, count)
        after = _rates(server.url, some, posted)
    rates = {n: statistics.mean((before[n], after[n])) for n in _AT_A_TIME}
    return {
        **command,
        "capacity": max(rates.values()),
        "time_vs_capacity": max(rates.values()) / command["rate"],
        "rates": {"before": before, "after": after},
    }


BENCHMARK = Benchmark(description=__doc__, parts={"many_recordings": _many})

if __name__ == "__main__":
    main(BENCHMARK)
