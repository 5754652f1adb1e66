"""A translate worker killed in mid-segment: no word is lost, and none is said twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping

from auricle.audio.pcm import to_int16
from auricle.client import Client, Translation
from benchmarks.streaming.audio import Recording
from benchmarks.translation.graph import ASKED, Asked, Heard, heard, taken_back, texts, translations
from tests.server import Server, eventually

_SECONDS, _BACK_SECONDS = 24.0, 120.0


def faults(asked: Asked) -> dict[str, float]:
    """Kill the worker after some translated text; every other session is as usual."""
    same = identical = lost = doubled = missing = erased = segments = 0
    count = asked.of(8, 3)
    with asked.serving() as server:
        for number, recording in enumerate(asked.recordings(count, _SECONDS, seed=7)):
            usual = asyncio.run(heard(server.url, recording))
            hurt = asyncio.run(_killed(server, recording, after=2 + number % 4))
            same += texts(usual) == texts(hurt)
            erased += taken_back(hurt)
            identical += translations(usual) == translations(hurt)
            gone, twice, absent = compared(translations(usual), translations(hurt))
            lost, doubled, missing = lost + gone, doubled + twice, missing + absent
            segments += len(translations(usual))
    return {
        "text_identical_translate_worker": same / count,
        "translation_identical_translate_worker": identical / count,
        "words_lost_translate_worker": float(lost),
        "words_doubled_translate_worker": float(doubled),
        "words_taken_back_translate_worker": float(erased),
        "translations_missing_share_translate_worker": missing / max(1, segments),
    }


async def _killed(server: Server, recording: Recording, after: int) -> list[Heard]:
    """Kill the worker when so many translations were told; it is back when this returns."""
    found: list[Heard] = []
    told = 0
    stream = Client(server.url).stream(to_int16(recording.samples), **(ASKED | {"live": True}))
    async for event in stream:
        found.append(Heard(0.0, 0.0, event))
        told += isinstance(event, Translation)
        if told == after:
            server.component("TranslateWorker").send_signal(signal.SIGKILL)
            told += 1  # once
    await eventually(lambda: _is_back(server), _BACK_SECONDS)
    return found


def _is_back(server: Server) -> bool:
    try:
        return server.component("TranslateWorker").is_running()
    except LookupError:
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
