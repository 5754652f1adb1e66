"""Attacks from the same machine, or from the graph's network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx

from auricle_testing.wire import TEXT, frame
from benchmarks.hostile.attacker import Attacking, judging
from benchmarks.hostile.attackers.ports import head, stream
from benchmarks.hostile.attackers.wire import Target, Wire
from benchmarks.hostile.attacks.live import start
from benchmarks.hostile.inputs import Post, Stream, make
from benchmarks.hostile.oracle import Held, Verdict
from benchmarks.hostile.strategies.http import TRANSCRIPTIONS, handshake
from benchmarks.hostile.strategies.inside import STRANGER, WITNESS, valid_request
from benchmarks.hostile.strategies.messages import STREAM
from benchmarks.hostile.strategies.ports import garbage

_GARBAGE = garbage()


def _rejected(endpoints: Sequence[str], name: str, *seals: str) -> Attacking:
    """An attack with valid requests without the deployment's secret; all must be rejected."""
    lies = [valid_request(one, name, name, seal) for one in endpoints for seal in seals]
    return judging(lies, Verdict.REFUSED)


# With the graph's addresses alone, no audio is encoded and no session admitted.
strangers_inside = _rejected(
    ("admit", "generate"), STRANGER, "none", "made up", "cut", "of another", "old"
)
# Audio, and the end, for another tenant's session, with its name and tenant.
the_witness_impersonated = _rejected(("push", "end"), WITNESS, "none", "made up", "of another")


async def readable_by_others(target: Target, _scale: float) -> Held:
    """Discovery and sockets belong to their user alone, by their own modes."""

    def others(path: Path) -> int:
        try:
            return path.stat().st_mode & 0o077
        except OSError:  # it no longer exists
            return 0

    discovery = Path(target.discovery)
    sockets = [Path(port.path) for port in target.ports if port.path]
    paths = await asyncio.to_thread(lambda: [discovery, *discovery.rglob("*"), *sockets])
    found = [f"{path.name} {mode:o}" for path in paths if (mode := others(path))]
    return Held(not found, f"open to others: {', '.join(found[:5])}" if found else "private")


async def beyond_loopback(target: Target, _scale: float) -> Held:
    """On one host no port inside the graph is bound to other addresses."""
    inner = [port for port in target.ports if not port.path]
    found = [port for port in inner if port.bound != "::1" and not port.bound.startswith("127.")]
    return Held(not found, f"bound to other addresses: {found}" if found else "loopback only")


async def log_flood(target: Target, scale: float) -> Held:
    """Refused handshakes, bad UTF-8 and garbage inside; the log must remain readable.

    `figures.py` counts its lines.
    """
    count = int(400 * scale)
    form = Post(TRANSCRIPTIONS, b"text/plain", b"")
    inner, front = [port for port in target.ports if not port.path], target.place("http")
    for number in range(count):
        await stream(target, Stream("http", (handshake(STREAM, key="wrong"),)))
        garbage = make("log_flood", 1, number, _GARBAGE).input
        assert isinstance(garbage, Stream)
        for port, data in (
            (front, handshake(STREAM, key=target.key) + frame(TEXT, b"\xff\xfe")),
            (front, head(target, form) + start()),
            (inner[number % len(inner)], garbage.pieces[0]),
        ):
            wire = await Wire.open(port)
            await wire.send(data)
            wire.close()
    return Held(True, "the lines are counted", 4 * count)


async def key_of_another(target: Target, _scale: float) -> Held:
    """The rejection of a key that is switched off does not name its tenant."""
    headers = {"Authorization": f"Bearer {target.withdrawn}"}
    answer = await asyncio.to_thread(httpx.get, f"{target.url}/v1/models", headers=headers)
    held = answer.status_code in (401, 403) and "withdrawn-tenant" not in answer.text
    return Held(held, f"{answer.status_code} {answer.text[:150]}")
