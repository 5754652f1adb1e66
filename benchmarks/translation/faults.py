"""A translate worker killed in mid-segment, the only one or one of two: no word is lost, and none
is said twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import httpx

from auricle.audio.pcm import to_int16
from auricle.client import Client, Translation
from auricle_testing.server import Server, eventually
from benchmarks.streaming.audio import Recording
from benchmarks.translation.graph import ASKED, Asked, Heard, heard, taken_back, texts, translations

_SECONDS, _BACK_SECONDS = 24.0, 120.0


def faults(asked: Asked) -> dict[str, float]:
    """Kill the worker that has the session, after some translated text; every other session is as
    usual. The only one is back later than translations are waited for, so some are missing.
    """
    return _faults(asked, 1, "translate_worker") | _faults(asked, 2, "one_of_two_translate_workers")


def _faults(asked: Asked, workers: int, name: str) -> dict[str, float]:
    same = identical = lost = doubled = missing = erased = segments = 0
    count = asked.of(8, 3)
    with asked.serving(f"--TranslateWorker.replicas={workers}") as server:
        first = server.system_ports["TranslateWorker"]
        ports = range(first, first + workers)
        for number, recording in enumerate(asked.recordings(count, _SECONDS, seed=7)):
            usual = asyncio.run(heard(server.url, recording))
            hurt = asyncio.run(_killed(server, ports, recording, after=2 + number % 4))
            same += texts(usual) == texts(hurt)
            erased += taken_back(hurt)
            identical += translations(usual) == translations(hurt)
            gone, twice, absent = compared(translations(usual), translations(hurt))
            lost, doubled, missing = lost + gone, doubled + twice, missing + absent
            segments += len(translations(usual))
    return {
        f"text_identical_{name}": same / count,
        f"translation_identical_{name}": identical / count,
        f"words_lost_{name}": float(lost),
        f"words_doubled_{name}": float(doubled),
        f"words_taken_back_{name}": float(erased),
        f"translations_missing_share_{name}": missing / max(1, segments),
    }


async def _killed(
    server: Server, ports: Sequence[int], recording: Recording, after: int
) -> list[Heard]:
    """Kill the busiest worker when so many translations were told; it is back when this returns."""
    before = [_asked(server, port) for port in ports]
    found: list[Heard] = []
    told = 0
    stream = Client(server.url).stream(to_int16(recording.samples), **(ASKED | {"live": True}))
    async for event in stream:
        found.append(Heard(0.0, 0.0, event))
        told += isinstance(event, Translation)
        if told == after:
            since = [_asked(server, port) - then for port, then in zip(ports, before, strict=True)]
            busiest = ports[since.index(max(since))]
            server.listening("TranslateWorker", busiest).send_signal(signal.SIGKILL)
            told += 1  # once
    await eventually(lambda: all(_is_back(server, port) for port in ports), _BACK_SECONDS)
    return found


def _asked(server: Server, port: int) -> float:
    """Return the prompt tokens of a worker so far."""
    one = replace(server, system_ports={"TranslateWorker": port})
    return one.metric("TranslateWorker", "auricle_translate_worker_prompt_tokens_total")


def _is_back(server: Server, port: int) -> bool:
    try:
        server.listening("TranslateWorker", port)
        return _asked(server, port) >= 0
    except (LookupError, httpx.HTTPError):
        return False


def compared(
    usual: Mapping[int, Translation], hurt: Mapping[int, Translation]
) -> tuple[int, int, int]:
    """Count words of segments' translations that are not said, and said more often, and segments
    whose translation is said to be missing, which have neither.
    """
    lost = doubled = missing = 0
    for segment, before in usual.items():
        now = hurt.get(segment)
        if now is not None and now.missing:
            missing += 1
            continue
        words = Counter(before.committed.split())
        said = Counter(now.committed.split() if now else [])
        lost += (words - said).total()
        doubled += (said - words).total()
    return lost, doubled, missing
