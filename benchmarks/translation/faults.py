"""A translate worker killed in mid-segment, the only one or one of two: words are neither lost nor
repeated."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import httpx

from auricle.client import StreamEvent, Translation
from auricle_testing.server import Server, eventually
from benchmarks.harness import Run
from benchmarks.sessions import Session
from benchmarks.speech import Recording
from benchmarks.translation.graph import recordings, taken_back, texts, translated, translating

_SECONDS, _BACK_SECONDS = 24.0, 120.0


def faults(run: Run) -> dict[str, float]:
    """Kill the session's worker after some translated text; every other session is undisturbed.

    The only worker returns later than the deadline of translations, so some are missing.
    """
    return _faults(run, 1, "translate_worker") | _faults(run, 2, "one_of_two_translate_workers")


def _faults(run: Run, workers: int, name: str) -> dict[str, float]:
    same = identical = lost = doubled = missing = erased = segments = 0
    count = run.of(8, 3)
    with translating(run, f"--TranslateWorker.replicas={workers}") as server:
        first = server.system_ports["TranslateWorker"]
        ports = range(first, first + workers)
        for number, recording in enumerate(recordings(count, _SECONDS, seed=7)):
            usual = asyncio.run(translated(server.url, recording))
            hurt = asyncio.run(_killed(server, ports, recording, after=2 + number % 4))
            before, now = usual.of(Translation), hurt.of(Translation)
            same += texts(usual) == texts(hurt)
            erased += taken_back(hurt)
            identical += before == now
            gone, twice, absent = compared(before, now)
            lost, doubled, missing = lost + gone, doubled + twice, missing + absent
            segments += len(before)
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
) -> Session:
    """Kill the busiest worker after `after` translations, and wait until it is back."""
    before = [_prompt_tokens(server, port) for port in ports]
    left = after

    def kill_once(event: StreamEvent) -> None:
        nonlocal left
        left -= isinstance(event, Translation)
        if left == 0:
            counts = zip(ports, before, strict=True)
            since = [_prompt_tokens(server, port) - then for port, then in counts]
            busiest = ports[since.index(max(since))]
            server.listening("TranslateWorker", busiest).send_signal(signal.SIGKILL)
            left = -1

    session = await translated(server.url, recording, on_event=kill_once)
    await eventually(lambda: all(_is_back(server, port) for port in ports), _BACK_SECONDS)
    return session


def _prompt_tokens(server: Server, port: int) -> float:
    one = replace(server, system_ports={"TranslateWorker": port})
    return one.metric("TranslateWorker", "auricle_translate_worker_prompt_tokens_total")


def _is_back(server: Server, port: int) -> bool:
    try:
        server.listening("TranslateWorker", port)
        return _prompt_tokens(server, port) >= 0
    except (LookupError, httpx.HTTPError):
        return False


def compared(
    usual: Mapping[int, Translation], hurt: Mapping[int, Translation]
) -> tuple[int, int, int]:
    """Count words of translations that are lost and repeated, and segments whose translation is
    reported as missing; their words do not count.
    """
    lost = doubled = missing = 0
    for segment, before in usual.items():
        now = hurt.get(segment)
        if now is not None and now.missing:
            missing += 1
            continue
        expected = Counter(before.committed.split())
        words = Counter(now.committed.split() if now else [])
        lost += (expected - words).total()
        doubled += (words - expected).total()
    return lost, doubled, missing
