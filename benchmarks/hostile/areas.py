"""The areas of the campaign: who makes their cases, who sends them, and how many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.hostile.attackers import http, inside, ports, rpc, sockets
from benchmarks.hostile.attackers import listen as listening
from benchmarks.hostile.attackers.inside import Liar
from benchmarks.hostile.attackers.resumes import Resumes
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.translations import translations as translating
from benchmarks.hostile.case import Case, Generate, Outcome
from benchmarks.hostile.generators import (
    answers,
    audio,
    containers,
    handshakes,
    listen,
    messages,
    resumes,
    telephones,
    translations,
    websocket,
    wyoming,
)
from benchmarks.hostile.generators import http as requests
from benchmarks.hostile.generators import inside as lies
from benchmarks.hostile.generators import rpc as calls

Attack = Callable[[Case], Awaitable[Outcome]]
Opened = Callable[[Target], AsyncGenerator[Attack, None]]
_CONCURRENT = 4


@dataclass(frozen=True)
class Area:
    """One area. `sends` yields an attacker for a row of cases, of which `concurrent` run at once.

    `full` and `quick` are numbers of cases. Whom the attacker has let in as a process of the
    deployment, with its secret, holds a place until `forgotten_seconds` after it.
    """

    name: str
    generate: Generate
    sends: Opened
    full: int
    quick: int
    concurrent: int = _CONCURRENT
    forgotten_seconds: float = 0.0


def _each(attack: Callable[[Target, Case], Awaitable[Outcome]]) -> Opened:
    """An attacker with a connection for each case."""

    async def sends(target: Target) -> AsyncGenerator[Attack, None]:
        yield lambda case: attack(target, case)

    return sends


def _on(kind: type[sockets.Realtime] | type[http.Queries] | type[Resumes]) -> Opened:
    """An attacker whose connection, or what it was given, lasts over several cases."""

    async def sends(target: Target) -> AsyncGenerator[Attack, None]:
        attacker = kind(target)
        try:
            yield attacker.attack
        finally:
            attacker.close()

    return sends


def _lying(method: Callable[[Liar, Case], Awaitable[Outcome]]) -> Opened:
    async def sends(target: Target) -> AsyncGenerator[Attack, None]:
        liar = Liar(target)
        try:
            yield lambda case: method(liar, case)
        finally:
            await asyncio.to_thread(liar.close)

    return sends


AREAS: dict[str, Area] = {
    area.name: area
    for area in (
        Area("handshakes", handshakes.handshake, _each(sockets.handshakes), 10_000, 700),
        Area("frames", websocket.frames, _each(sockets.frames), 8_000, 200),
        Area("starts", messages.start, _each(sockets.starts), 8_000, 400),
        Area("resumes", resumes.resumption, _on(Resumes), 3_000, 150, concurrent=2),
        Area("events", messages.event, _on(sockets.Realtime), 30_000, 2_400),
        Area("queries", requests.query, _on(http.Queries), 15_000, 1_200),
        Area("forms", requests.form, _each(http.forms), 6_000, 300),
        Area("leaving", answers.leaving, _each(http.leaving), 300, 8, concurrent=2),
        Area("containers", containers.container, _each(http.uploads), 2_000, 30, concurrent=2),
        Area("pcm", audio.pcm, _each(sockets.session), 4_000, 100),
        Area("features", audio.features, _each(sockets.session), 6_000, 300),
        Area("requests", lies.request, _lying(Liar.request), 8_000, 400, concurrent=1,
             forgotten_seconds=15.0),
        Area("reports", lies.report, _lying(Liar.publish), 3_000, 200, concurrent=1),
        Area("ports", lies.garbage, _each(inside.garbage), 5_000, 300),
        Area("listen", listen.case, _each(listening.listen), 6_000, 300),
        Area("telephones", telephones.case, _each(ports.telephones), 6_000, 200),
        Area("wyoming", wyoming.events, _each(ports.wyoming), 4_000, 150),
        Area("rpc", calls.call, rpc.calls, 6_000, 300),
        Area("translations", translations.case, _each(translating), 4_000, 250),
        Area("translate_requests", translations.request, _lying(Liar.request), 2_000, 150,
             concurrent=1),
        Area("servers", requests.inside, _each(http.inside), 4_000, 200),
    )
}  # fmt: skip


@asynccontextmanager
async def attacker(area: Area, target: Target) -> AsyncIterator[Attack]:
    """The attacker of an area, closed when the block ends."""
    sends = area.sends(target)
    try:
        yield await anext(sends)
    finally:
        await sends.aclose()
