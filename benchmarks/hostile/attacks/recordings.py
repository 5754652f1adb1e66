"""Attacks with recordings."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack, suppress
from typing import Any

import numpy as np

from auricle_testing import media, recordings
from auricle_testing.containers import CANNOT_BE_SEEN, CONTAINERS, DAMAGES, encoded, spoiled
from benchmarks.hostile.attacker import judging
from benchmarks.hostile.attackers.ports import head
from benchmarks.hostile.attackers.wire import Hung, Target, Wire
from benchmarks.hostile.attacks.newcomer import untranscribed
from benchmarks.hostile.inputs import Post
from benchmarks.hostile.oracle import Held, Verdict
from benchmarks.hostile.strategies.http import TRANSCRIPTIONS, upload
from benchmarks.hostile.strategies.values import MODEL

_BOMB_SECONDS = 45.0
_MISHEARD = 1  # words at a joint, or at the noise of an encoder
_SLOW_CONNECTIONS = 256
_GOOD = "a newcomer's recording was transcribed"


async def _upload(target: Target, data: bytes, name: str, seconds: float, **fields: str) -> bytes:
    """Post a file, and return the answer; empty if none comes in that time."""
    form = upload(data, name, model=target.model, **fields)
    wire = await Wire.open(target.place("http"))
    try:
        async with asyncio.timeout(seconds):
            await wire.send(head(target, form) + form.body)
            while True:
                with suppress(Hung):
                    return await wire.rest()
    except TimeoutError:
        return b""
    finally:
        wire.close(abrupt=True)


def _status(answer: bytes) -> int:
    return int(answer[9:12] or 0)


async def _during_bombs(target: Target, data: bytes, suffix: str, count: int) -> Held:
    """Upload several copies at once; a newcomer's recording must be transcribed meanwhile."""
    names = (f"{number}.{suffix}" for number in range(count))
    uploads = [asyncio.create_task(_upload(target, data, name, 60.0)) for name in names]
    await asyncio.sleep(1.0)
    refused = await untranscribed(target)
    for one in uploads:
        one.cancel()
    await asyncio.gather(*uploads, return_exceptions=True)
    return Held(not refused, refused or _GOOD, count)


async def tiny_packets(target: Target, scale: float) -> Held:
    """Matroska files of a million packets with one sample each."""
    data = await asyncio.to_thread(media.one_sample_packets, int(1_000_000 * max(scale, 0.2)))
    return await _during_bombs(target, data, "mka", 2)


async def hours_of_silence(target: Target, scale: float) -> Held:
    """Hours of silence in a few hundred kilobytes."""
    seconds = int(4 * 3_600 * max(scale, 0.25))
    data = await asyncio.to_thread(media.silent_flac, seconds, 16_000, 1)
    return await _during_bombs(target, data, "flac", 4)


async def many_channels(target: Target, scale: float) -> Held:
    """32 channels at 192 kHz."""
    noise = random.Random(1).randbytes(32 * 2 * int(192_000 * 2 * max(scale, 0.25)))
    return await _during_bombs(target, media.wav(noise, rate=192_000, channels=32), "wav", 3)


async def media_bombs(target: Target, scale: float) -> Held:
    """Recordings whose cost is far larger than their use: none causes a failure, and a newcomer's
    is transcribed meanwhile. Hours of silence may take long, within their limits."""
    made = await asyncio.to_thread(lambda: list(media.bombs(1)))
    waiting = made[:: max(1, round(0.4 / scale))]
    count, wrong, slow = len(waiting), list[str](), list[str]()

    async def row() -> None:
        while waiting:
            file, data = waiting.pop()
            answer = await _upload(target, data, file, _BOMB_SECONDS)
            if not answer:
                slow.append(file)
            elif _status(answer) >= 500:
                wrong.append(f"{file}: {answer[:300]!r}")

    rows = asyncio.gather(row(), row())
    refused = await untranscribed(target)
    await rows
    detail = f"still in progress: {', '.join(slow)}" if slow else "all were answered"
    return Held(not (refused or wrong), refused or "; ".join(wrong) or detail, count)


async def spoiled_recordings(target: Target, scale: float) -> Held:
    """Damaged and joined files of all containers: no words are lost without a warning."""
    spoken = np.concatenate([recordings.samples(name) for name in ("hello", "kitchen")])
    wrong, count = list[str](), 0
    for name in list(CONTAINERS)[:: max(1, round(1 / scale))]:
        data = await asyncio.to_thread(encoded, name, [(0.0, spoken)])
        words = len(_told(await _upload(target, data, name, _BOMB_SECONDS))["text"].split())
        for damage in DAMAGES:
            count += 1
            file = spoiled(data, damage)
            told = _told(await _upload(target, file, name, _BOMB_SECONDS, on_damage="keep"))
            expected = words * 2 if damage == "joined" else words
            lost = len(told.get("text", "").split()) < expected - _MISHEARD
            said = "error" in told or "warnings" in told or (name, damage) in CANNOT_BE_SEEN
            if lost and not said:
                wrong.append(f"{name} {damage}: {told}"[:200])
    return Held(not wrong, "; ".join(wrong) or "all losses were reported", count)


def _told(answer: bytes) -> dict[str, Any]:
    """Return the object of an answer; an answer that does not come counts as an error."""
    body = answer.partition(b"\r\n\r\n")[2]
    told: dict[str, Any] = json.loads(body) if body else {"error": "no answer", "text": ""}
    return {"text": "", **told}


async def slow_bodies(target: Target, _scale: float) -> Held:
    """256 uploads of a byte now and then; a newcomer's recording must be transcribed."""
    form = Post(TRANSCRIPTIONS, b"multipart/form-data; boundary=x", b"--x")
    async with AsyncExitStack() as stack:
        wires = []
        for _ in range(_SLOW_CONNECTIONS):
            wires.append(await Wire.open(target.place("http")))
            stack.callback(wires[-1].close, abrupt=True)
            await wires[-1].send(head(target, form, 100_000) + form.body)
        refused = await untranscribed(target)
        for wire in wires:
            await wire.send(b"-")
    return Held(not refused, refused or _GOOD, _SLOW_CONNECTIONS)


_AUDIO = recordings.path("hello")
_NAMED = (_AUDIO, *(f"/proc/self/fd/{number}" for number in range(3, 64)), "/dev/fd/3", "x.flac")
# Playlists that name other files, and descriptors of another client's upload.
_PLAYLISTS = (
    *(
        f"#EXTM3U\n#EXTINF:9,\n{form}{_AUDIO}\n#EXT-X-ENDLIST\n"
        for form in ("", "file://", "file:")
    ),
    f'<?xml version="1.0"?><MPD><Period><BaseURL>{_AUDIO}</BaseURL></Period></MPD>',
    "v=0\nc=IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n",
    *(f"ffconcat version 1.0\nfile '{name}'\n" for name in _NAMED),
)
_none_opened = judging([upload(text.encode(), "x.txt", model=MODEL) for text in _PLAYLISTS],
                       Verdict.REFUSED)  # fmt: skip


async def other_files(target: Target, scale: float) -> Held:
    """Playlists during another client's upload. They must not open its file."""
    other = asyncio.create_task(untranscribed(target, 60.0))
    held = await _none_opened(target, max(scale, 0.3))
    detail = await other or held.detail
    return Held(held.held and detail == held.detail, detail, held.cases)
