"""A client that connects during an attack, from an address of its own, and watches /live."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import websockets

from auricle.frontend.transport.grpc.frames import PREFACE, FrameKind
from auricle_testing import http2
from auricle_testing.scraping import parsed, values
from benchmarks.hostile.attackers.wire import (
    ANSWER_SECONDS,
    AttackerFailed,
    Hung,
    Target,
    Wire,
)
from benchmarks.hostile.oracle import Held
from benchmarks.hostile.strategies.ports import RECOGNITION

_ADDRESS = "127.0.0.200"
_PROBE_SECONDS = 0.05
RESPONSIVE_SECONDS = 1.0
RECORDING_SECONDS = 10.0
# A client with a key is accepted within this time, also during attacks of others.
ADMITTED_SECONDS = 2.0
# Tries to be accepted; returns the reason for a rejection, or an empty text.
Attempt = Callable[[Target], Coroutine[Any, Any, str]]


@dataclass
class Live:
    """The answers of /live: the longest in seconds, and failures."""

    worst: float = 0.0
    failures: list[str] = field(default_factory=list)


def _client(seconds: float) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(local_address=_ADDRESS)
    return httpx.AsyncClient(transport=transport, timeout=seconds)


def _authorization(target: Target) -> dict[str, str]:
    """The newcomer's header; empty if the graph needs no keys."""
    return {"Authorization": f"Bearer {target.newcomer}"} if target.newcomer else {}


@asynccontextmanager
async def watching_live(url: str, pause: float = _PROBE_SECONDS) -> AsyncIterator[Live]:
    """Request /live again and again until the block ends."""
    found = Live()

    async def watch() -> None:
        async with _client(ANSWER_SECONDS) as client:
            while True:
                began = time.monotonic()
                try:
                    (await client.get(f"{url}/live")).raise_for_status()
                except httpx.TimeoutException:
                    found.failures.append(f"/live did not answer for {ANSWER_SECONDS:g} s")
                except httpx.HTTPError as error:
                    found.failures.append(f"/live: {error!r}")
                found.worst = max(found.worst, time.monotonic() - began)
                await asyncio.sleep(pause)

    task = asyncio.create_task(watch())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def rejection(target: Target) -> str:
    """Open a live session; return the reason for its rejection, or an empty text."""
    try:
        async with websockets.connect(
            target.url.replace("http", "ws", 1) + "/v1/audio/stream",
            additional_headers=_authorization(target),
            local_addr=(_ADDRESS, 0),
            open_timeout=ANSWER_SECONDS,
        ) as socket:
            await socket.send('{"type": "start", "sample_rate": 16000}')
            message = json.loads(await asyncio.wait_for(socket.recv(), ANSWER_SECONDS))
            return "" if message["type"] == "ready" else f"a newcomer received {message}"
    except websockets.InvalidStatus as error:
        after = error.response.headers.get("Retry-After")
        return f"a newcomer was refused with {error.response.status_code}, Retry-After {after}"
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        return f"a newcomer's session failed: {error!r}"


async def until_accepted(target: Target, seconds: float = 20.0) -> None:
    """Wait until a newcomer is accepted before an attack. Raises AttackerFailed."""
    deadline = time.monotonic() + seconds
    while refused := await rejection(target):
        if time.monotonic() > deadline:
            raise AttackerFailed(f"before the attack {refused}")
        await asyncio.sleep(1.0)


async def rejection_within(target: Target, seconds: float) -> str:
    """Open a session each second; return the first reason for a rejection, or an empty text."""
    end, refused = time.monotonic() + seconds, ""
    while time.monotonic() < end and not refused:
        await asyncio.sleep(1.0)
        refused = await rejection(target)
    return refused


async def call_rejection(target: Target) -> str:
    """Make a gRPC call with a key on a new connection; return the reason for its failure, or ""."""
    wire = await Wire.open(target.place("grpc"), _ADDRESS)
    try:
        method = f"{RECOGNITION}/GetRivaSpeechRecognitionConfig"
        begun = http2.call(1, method, target.newcomer or None)
        end = http2.data(1, http2.prefix(0), ends=True)
        await wire.send(PREFACE + http2.EMPTY_SETTINGS + begun + end)
        while not _has_data(wire.unread):
            if not await wire.receive():
                return f"a newcomer's call was not answered: {bytes(wire.unread)[-200:]!r}"
    except Hung as error:
        return f"a newcomer's call was not answered: {error}, {bytes(wire.unread)[-200:]!r}"
    finally:
        wire.close()
    return ""


def _has_data(received: bytearray) -> bool:
    """Whether one of the received frames has a message of the only call."""
    at = 0
    while len(received) >= at + 9:
        if received[at + 3] == FrameKind.DATA:
            return True
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return False


async def admitted(
    target: Target, seconds: float, attempt: Attempt = rejection, cases: int = 1
) -> Held:
    """Connect again and again for that time; each attempt must be accepted within 2 s.

    A process of its own does it, because the attacker's load must not delay it.
    """
    arguments = (attempt.__name__, str(seconds), str(cases), msgspec.json.encode(target).decode())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, *arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise AttackerFailed(f"the newcomer's process ended with {process.returncode}")
    return msgspec.json.decode(said, type=Held)


async def _attempts(target: Target, seconds: float, attempt: Attempt, cases: int) -> Held:
    end, slowest, wrong = time.monotonic() + seconds, 0.0, ""
    while not wrong and time.monotonic() < end:
        began = time.monotonic()
        wrong = await attempt(target)
        slowest = max(slowest, time.monotonic() - began)
        await asyncio.sleep(0.5)
    if not wrong and slowest > ADMITTED_SECONDS:
        wrong = f"a newcomer was accepted only after {slowest:.1f} s"
    return Held(not wrong, wrong or f"accepted within {slowest:.2f} s", cases, slowest)


async def untranscribed(target: Target, within_seconds: float | None = None) -> str:
    """Have a short recording transcribed in time; return the reason for a failure, or ""."""
    data = await asyncio.to_thread(Path(target.audio).read_bytes)
    began = time.monotonic()
    try:
        async with _client(within_seconds or RECORDING_SECONDS) as client:
            answer = await client.post(
                f"{target.url}/v1/audio/transcriptions",
                data={"model": target.model},
                files={"file": ("x.flac", data)},
                headers=_authorization(target),
            )
    except httpx.HTTPError as error:
        return f"a newcomer's recording failed after {time.monotonic() - began:.1f} s: {error!r}"
    if answer.status_code != 200:
        return f"a newcomer's recording was answered {answer.status_code}: {answer.text[:200]}"
    return ""


async def metric(target: Target, name: str) -> float:
    """The sum of a metric of the frontend."""
    async with _client(ANSWER_SECONDS) as client:
        text = (await client.get(f"{target.url}/metrics")).text
    return sum(values(parsed(text), name))


def _main() -> None:
    name, seconds, cases, target = sys.argv[1:]
    attempt = {"rejection": rejection, "call_rejection": call_rejection}[name]
    known = msgspec.json.decode(target, type=Target)
    found = asyncio.run(_attempts(known, float(seconds), attempt, int(cases)))
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    _main()
