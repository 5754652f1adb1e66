"""Attacks with recordings."""

from __future__ import annotations

import asyncio
import contextlib
import random

from auricle_testing import media
from benchmarks.hostile.attackers.http import head
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Address, HttpAnswer, Hung, Wire
from benchmarks.hostile.attacks.newcomer import Held, is_transcribed
from benchmarks.hostile.generators.http import upload

RECORDING_SECONDS = 10.0
_BOMB_SECONDS = 45.0
_SLOW_CONNECTIONS = 256


async def _upload(target: Target, data: bytes, name: str, seconds: float) -> HttpAnswer | None:
    """Post a file; None if no answer came in that time."""
    content_type, body = upload(data, name, model="demo")
    wire = await Wire.open(Address(target.host, target.port))
    try:
        async with asyncio.timeout(seconds):
            await wire.send(head(target, content_type, len(body)) + body)
            while True:
                with contextlib.suppress(Hung):
                    return await wire.http()
    except TimeoutError:
        return None
    finally:
        wire.close(abrupt=True)


async def _beside_bombs(target: Target, files: dict[str, bytes]) -> Held:
    """Upload all of them at once; a newcomer's recording must be transcribed meanwhile."""
    uploads = [
        asyncio.create_task(_upload(target, data, name, 60.0)) for name, data in files.items()
    ]
    await asyncio.sleep(1.0)
    refused = await is_transcribed(target, RECORDING_SECONDS)
    for one in uploads:
        one.cancel()
    await asyncio.gather(*uploads, return_exceptions=True)
    return Held(not refused, refused or "a newcomer's recording was transcribed", len(files))


async def tiny_packets(target: Target, scale: float) -> Held:
    """Matroska files of a million packets of one sample each."""
    data = await asyncio.to_thread(media.one_sample_packets, int(1_000_000 * max(scale, 0.2)))
    return await _beside_bombs(target, {f"{n}.mka": data for n in range(2)})


async def hours_of_silence(target: Target, scale: float) -> Held:
    """Hours of silence in a few hundred kilobytes."""
    seconds = int(4 * 3_600 * max(scale, 0.25))
    data = await asyncio.to_thread(media.silent_flac, seconds, 16_000, 1)
    return await _beside_bombs(target, {f"{n}.flac": data for n in range(4)})


async def media_bombs(target: Target, scale: float) -> Held:
    """Recordings made to cost more than they are worth: none is answered with a failure, and a
    newcomer's is transcribed meanwhile. Hours of silence may be worked at, within their limits."""
    made = await asyncio.to_thread(lambda: list(media.bombs(1)))
    every = max(1, round(0.4 / scale))
    waiting, wrong, unanswered = list(made[::every]), list[str](), list[str]()

    async def row() -> None:
        while waiting:
            file, data = waiting.pop()
            answer = await _upload(target, data, file, _BOMB_SECONDS)
            if answer is None:
                unanswered.append(file)
            elif answer.status >= 500:
                wrong.append(f"{file}: {answer.status} {answer.body[:100]!r}")

    rows = [asyncio.create_task(row()) for _ in range(2)]
    refused = await is_transcribed(target, RECORDING_SECONDS)
    await asyncio.gather(*rows)
    busy = f"still at work: {', '.join(unanswered)}" if unanswered else "all were answered"
    detail = refused or "; ".join(wrong) or busy
    return Held(not (refused or wrong), detail, len(made[::every]))


async def many_channels(target: Target, scale: float) -> Held:
    """32 channels at 192 kHz."""
    noise = random.Random(1).randbytes(32 * 2 * int(192_000 * 2 * max(scale, 0.25)))
    data = media.wav(noise, rate=192_000, channels=32)
    return await _beside_bombs(target, {f"{n}.wav": data for n in range(3)})


async def slow_bodies(target: Target, _scale: float) -> Held:
    """256 uploads of a byte now and then; a newcomer's recording must be transcribed."""
    wires: list[Wire] = []
    begun = head(target, b"multipart/form-data; boundary=x", 100_000)
    try:
        for _ in range(_SLOW_CONNECTIONS):
            wire = await Wire.open(Address(target.host, target.port))
            wires.append(wire)
            await wire.send(begun + b"--x")
        refused = await is_transcribed(target, RECORDING_SECONDS)
        for wire in wires:
            await wire.send(b"-")
    finally:
        for wire in wires:
            wire.close(abrupt=True)
    return Held(not refused, refused or "a newcomer's recording was transcribed", len(wires))


async def other_files(target: Target, scale: float) -> Held:
    """Playlists that name other files, and descriptors that another client's upload may have."""
    descriptors = range(3, 3 + int(61 * max(scale, 0.3)))
    named = [target.audio, *(f"/proc/self/fd/{n}" for n in descriptors), "/dev/fd/3", "x.flac"]
    texts = [
        *(f"ffconcat version 1.0\nfile '{name}'\n" for name in named),
        *(f"#EXTM3U\n#EXTINF:9,\n{form}\n#EXT-X-ENDLIST\n"
          for name in named[:1] for form in (name, f"file://{name}", f"file:{name}")),
        f'<?xml version="1.0"?><MPD><Period><BaseURL>{target.audio}</BaseURL></Period></MPD>',
        "v=0\nc=IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n",
    ]  # fmt: skip
    other = asyncio.create_task(is_transcribed(target, 60.0))
    wrong = []
    for text in texts:
        answer = await _upload(target, text.encode(), "x.txt", 10.0)
        if answer is None or answer.status != 400:
            wrong.append(f"{text[:60]!r}: {answer and (answer.status, answer.body[:100])}")
    refused = await other
    return Held(
        not wrong and not refused,
        "; ".join(wrong[:3]) or refused or "none was opened",
        len(texts),
    )
