"""Attacks by somebody on the same machine, or in the same network as the graph."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx

from benchmarks.hostile.attackers.http import head
from benchmarks.hostile.attackers.inside import Liar
from benchmarks.hostile.attackers.sockets import handshakes
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Address, Wire
from benchmarks.hostile.attacks.live import start
from benchmarks.hostile.attacks.newcomer import Held
from benchmarks.hostile.case import Case, Verdict, cases
from benchmarks.hostile.generators.inside import (
    GOOD,
    SEALS,
    WITNESS,
    Lie,
    encode_request,
    garbage,
    session_request,
)
from benchmarks.hostile.generators.websocket import frame, request


async def _told(target: Target, lies: list[Lie]) -> list[str]:
    """Send well-formed requests without the deployment's secret; return those that were obeyed."""
    liar, obeyed = Liar(target), []
    try:
        for number, lie in enumerate(lies):
            outcome = await liar.request(Case("attack", 0, number, "lie", lie))
            if outcome.verdict is Verdict.LOST:
                obeyed.append(f"not tried: {outcome.detail}")
            elif outcome.verdict is not Verdict.REFUSED:
                obeyed.append(f"{lie.component}.{lie.endpoint}: {outcome.detail[:80]}")
    finally:
        await asyncio.to_thread(liar.close)
    return obeyed


async def strangers_inside(target: Target, _scale: float) -> Held:
    """Who only knows where the graph listens may not have anything encoded or admitted."""
    some = [session_request("admit", "made-up", "made-up"), encode_request("made-up", "made-up")]
    lies = [
        replace(lie, seal=seal) for lie in some for seal in SEALS if seal not in (GOOD, "twice")
    ]
    obeyed = await _told(target, lies)
    return Held(not obeyed, "; ".join(obeyed) or "refused", len(lies))


async def the_witness_impersonated(target: Target, _scale: float) -> Held:
    """Audio, and the end, for somebody else's session, with its name and tenant known."""
    lies = [
        replace(session_request(endpoint, WITNESS, WITNESS), seal=seal)
        for endpoint in ("push", "end")
        for seal in ("none", "made up", "of another")
    ]
    obeyed = await _told(target, lies)
    return Held(not obeyed, "; ".join(obeyed) or "refused", len(lies))


async def readable_by_others(target: Target, _scale: float) -> Held:
    """Discovery and sockets are their user's alone, by their own modes: whatever is above them."""
    discovery = Path(target.discovery)
    paths = await asyncio.to_thread(lambda: [discovery, *discovery.rglob("*")])
    found = [
        f"{path.name} {mode:o}"
        for path in (*paths, *map(Path, target.sockets))
        if (mode := _others(path))
    ]
    return Held(not found, f"open to others: {', '.join(found[:5])}" if found else "private")


def _others(path: Path) -> int:
    """What others may do with it, as in its mode; 0 if it is gone."""
    try:
        return path.stat().st_mode & 0o077
    except OSError:
        return 0


async def beyond_loopback(target: Target, _scale: float) -> Held:
    """On one host nothing inside the graph listens for other hosts."""
    open_ports = [
        f"{port.component} {port.number}" for port in target.ports if not _loopback(port.bound)
    ]
    return Held(not open_ports, f"listen for all: {open_ports}" if open_ports else "loopback only")


def _loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


async def log_flood(target: Target, scale: float) -> Held:
    """Refused handshakes, bad UTF-8 and garbage on the ports inside; the log must stay readable.

    Its lines are counted by who runs this, see `figures.flooded`.
    """
    count = int(400 * scale)
    bad = frame(1, b"\xff\xfe")
    for number in range(count):
        refused = Case("attack", 0, number, "flood", [request("/v1/audio/stream", key="wrong")])
        await handshakes(target, refused)
        wire = await Wire.open(Address(target.host, target.port))
        await wire.send(request("/v1/audio/stream", key=target.key) + bad)
        wire.close()
        wire = await Wire.open(Address(target.host, target.port))
        await wire.send(head(target, b"text/plain", 0) + start())
        wire.close()
    for case in cases("attack", 0, count, garbage):
        port = target.ports[case.number % len(target.ports)]
        wire = await Wire.open(Address(port.host, port.number))
        await wire.send(case.data["data"])
        wire.close()
    return Held(True, "the lines are counted", 4 * count)


async def key_of_another(target: Target, _scale: float) -> Held:
    """A key that is switched off says nothing of whose it is."""
    async with httpx.AsyncClient(timeout=5.0) as client:
        answer = await client.get(
            f"http://{target.host}:{target.port}/v1/models",
            headers={"Authorization": f"Bearer {target.withdrawn}"},
        )
    names = "withdrawn-tenant" in answer.text
    return Held(
        answer.status_code in (401, 403) and not names, f"{answer.status_code} {answer.text[:150]}"
    )
