"""A client who comes while an attack goes on, from an address of its own."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import websockets

from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import ANSWER_SECONDS, AttackerFailed

_ADDRESS = "127.0.0.200"


@dataclass(frozen=True)
class Held:
    """Whether the graph held against an attack, why (not), and how many cases it was."""

    held: bool
    detail: str
    cases: int = 1


def _url(target: Target) -> str:
    return f"://{target.host}:{target.port}"


def _authorization(target: Target) -> dict[str, str]:
    """The newcomer's header; none if the graph needs no keys."""
    return {"Authorization": f"Bearer {target.newcomer}"} if target.newcomer else {}


async def is_let_in(target: Target, within_seconds: float | None = None) -> str:
    """Open a live session, within ANSWER_SECONDS by default; return why not, or ""."""
    within_seconds = ANSWER_SECONDS if within_seconds is None else within_seconds
    began = time.monotonic()
    try:
        async with websockets.connect(
            f"ws{_url(target)}/v1/audio/stream",
            additional_headers=_authorization(target),
            local_addr=(_ADDRESS, 0),
            open_timeout=within_seconds,
        ) as socket:
            await socket.send(json.dumps({"type": "start", "sample_rate": 16_000}))
            message = json.loads(await asyncio.wait_for(socket.recv(), within_seconds))
            if message["type"] != "ready":
                return f"a newcomer was told {message}"
    except websockets.InvalidStatus as error:
        after = error.response.headers.get("Retry-After")
        return f"a newcomer was refused with {error.response.status_code}, Retry-After {after}"
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        return f"a newcomer failed after {time.monotonic() - began:.1f} s: {error!r}"
    return ""


async def until_let_in(target: Target, seconds: float = 20.0) -> None:
    """Wait until a newcomer is let in with no attack, so that it is the attack that refusals
    come from. Raises AttackerFailed if none is for so many seconds."""
    deadline = time.monotonic() + seconds
    while refused := await is_let_in(target):
        if time.monotonic() > deadline:
            raise AttackerFailed(f"before the attack {refused}")
        await asyncio.sleep(1.0)


async def is_transcribed(target: Target, within_seconds: float) -> str:
    """Have a short recording transcribed; return why not, or ""."""
    data = await asyncio.to_thread(Path(target.audio).read_bytes)
    transport = httpx.AsyncHTTPTransport(local_address=_ADDRESS)
    began = time.monotonic()
    try:
        async with httpx.AsyncClient(transport=transport, timeout=within_seconds) as client:
            answer = await client.post(
                f"http{_url(target)}/v1/audio/transcriptions",
                data={"model": "demo"},
                files={"file": ("x.flac", data)},
                headers=_authorization(target),
            )
    except httpx.HTTPError as error:
        return f"a newcomer's recording failed after {time.monotonic() - began:.1f} s: {error!r}"
    if answer.status_code != 200:
        return f"a newcomer's recording was answered {answer.status_code}: {answer.text[:200]}"
    return ""


async def slowest_live(target: Target, until: asyncio.Event) -> float:
    """The longest answer of /live in seconds until the event; ANSWER_SECONDS if there was none."""
    worst = 0.0
    transport = httpx.AsyncHTTPTransport(local_address=_ADDRESS)
    async with httpx.AsyncClient(transport=transport, timeout=ANSWER_SECONDS) as client:
        while not until.is_set():
            began = time.monotonic()
            try:
                await client.get(f"http{_url(target)}/live")
            except httpx.HTTPError:
                return ANSWER_SECONDS
            worst = max(worst, time.monotonic() - began)
            await asyncio.sleep(0.05)
    return worst


async def metric(target: Target, name: str) -> float:
    """The sum of a metric of the frontend."""
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
        text = (await client.get(f"http{_url(target)}/metrics")).text
    lines = (line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
