"""Makes diagnoses for operators, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from auricle.config.settings import CommonSettings
from auricle.core.errors import AuricleError, RateLimited
from auricle.dynamo import Runtime
from auricle.load.pools import OPTIONAL_POOLS
from auricle.protocol.diagnosis import (
    AskDescription,
    AskProbe,
    BusState,
    Description,
    Diagnosis,
    DiscoveryState,
    ProbeAnswer,
    Probed,
    ProcessAnswer,
)

# What a diagnosis asks of other processes; nothing is followed before the first one.

COMPONENTS = ("processor", "encode_worker", "pd_worker", "planner")


def beside(settings: CommonSettings) -> tuple[str, ...]:
    """Return the components beside the path that there are by these settings."""
    return tuple(pool.kind for pool in OPTIONAL_POOLS if pool.there(settings))


class ProbedEndpoint(Protocol):
    """The part of `RemoteEndpoint` that is used here."""

    async def listed(self) -> list[int]:
        """See `RemoteEndpoint`."""
        ...

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> msgspec.Struct:
        """See `RemoteEndpoint`."""
        ...


@dataclass(frozen=True)
class Deployment:
    """The endpoints to ask: of each component's processes, and of the processors' probes.

    Each connects when it is first used, and stays connected.
    """

    processes: Mapping[str, ProbedEndpoint]
    probe: ProbedEndpoint

    @classmethod
    def of(cls, runtime: Runtime, settings: CommonSettings) -> Deployment:
        """Return the deployment of this process, which may have pools beside the path."""
        components = (*COMPONENTS, *beside(settings))
        return cls(
            {component: runtime.asking(component) for component in components},
            runtime.client("processor", "probe"),
        )


# Who is there: asks discovery for all processes, and all processes for a description.

# Asked at once.
MAX_PROCESSES = 256
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True)
class Census:
    """The answers in order of component and instance, what was left out, and what failed."""

    answers: tuple[ProcessAnswer, ...]
    unasked: int
    unlisted: tuple[str, ...]


async def census(
    processes: Mapping[str, ProbedEndpoint], wall_clock: Callable[[], float] = time.time
) -> Census:
    """Ask all processes at once, each with a deadline of 3 s. Raises nothing."""
    listed = await asyncio.gather(*(_listed(asked) for asked in processes.values()))
    found = [
        (component, instance)
        for component, instances in zip(processes, listed, strict=True)
        for instance in sorted(instances or ())
    ]
    chosen = found[:MAX_PROCESSES]
    answers = await asyncio.gather(
        *(_describe(c, processes[c], instance, wall_clock) for c, instance in chosen)
    )
    unlisted = tuple(c for c, some in zip(processes, listed, strict=True) if some is None)
    return Census(tuple(answers), len(found) - len(chosen), unlisted)


async def _listed(asked: ProbedEndpoint) -> list[int] | None:
    try:
        return await asked.listed()
    except AuricleError:
        return None


async def _describe(
    component: str, asked: ProbedEndpoint, instance: int, wall_clock: Callable[[], float]
) -> ProcessAnswer:
    name, began, sent = f"{instance:x}", time.monotonic(), wall_clock()
    try:
        reply = await asked.call(AskDescription(), Description, instance, _ANSWER_SECONDS)
    except AuricleError as error:
        return ProcessAnswer(component, name, time.monotonic() - began, fault=error.code)
    seconds = time.monotonic() - began
    assert isinstance(reply, Description)
    ahead = reply.clock - (sent + seconds / 2)
    return ProcessAnswer(component, name, seconds, reply, clock_ahead_seconds=ahead)


# Whether the discovery backend is there.

_ETCD_PORT = 2379
_CONNECT_SECONDS = 2.0


async def discovery_state(settings: CommonSettings) -> str:
    """Return `up`, `down`, or `unknown` where it cannot be told. Raises nothing.

    The directory of `file` must exist; one of etcd's endpoints must take connections.
    """
    if settings.discovery == "file":
        there = await asyncio.to_thread(settings.discovery_path.is_dir)
        return "up" if there else "down"
    if settings.discovery == "etcd" and settings.etcd_endpoints:
        endpoints = settings.etcd_endpoints.split(",")
        taken = await asyncio.gather(*(_takes_connections(one.strip()) for one in endpoints))
        return "up" if any(taken) else "down"
    return "unknown"


async def _takes_connections(endpoint: str) -> bool:
    try:
        url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(url.hostname, url.port or _ETCD_PORT)
    except (OSError, ValueError, TimeoutError):
        return False
    writer.close()
    return True


# Probes: every processor, encode worker and PD worker that answers takes part in one.

MAX_PROBES = 64
_PROBE_SECONDS = 20.0
_ALL_SECONDS = 40.0
_PARTS = ("processor", "encode_worker", "pd_worker")
NOT_REACHED = "not_reached"


@dataclass(frozen=True)
class ProbeTargets:
    """The instances that take part in a probe."""

    processor: int
    encode_worker: int
    pd_worker: int


def routes(answers: Iterable[ProcessAnswer]) -> tuple[ProbeTargets, ...]:
    """Return as few routes as have every instance that answers and stays in one, at most 64.

    Not every pair of workers: their number is the product of the pools.
    """
    there: defaultdict[str, list[int]] = defaultdict(list)
    for answer in answers:
        if answer.description is not None and not answer.description.draining:
            there[answer.component].append(int(answer.instance or "0", 16))
    pools = [there[part] for part in _PARTS]
    if not all(pools):
        return ()
    most = min(max(map(len, pools)), MAX_PROBES)
    return tuple(ProbeTargets(*(pool[n % len(pool)] for pool in pools)) for n in range(most))


async def probes(
    endpoint: ProbedEndpoint, wanted: Sequence[ProbeTargets]
) -> tuple[ProbeAnswer, ...]:
    """Make these probes, one at a time on each processor, for at most 40 s. Raises nothing."""
    answers: dict[ProbeTargets, ProbeAnswer] = {}
    by_processor: defaultdict[int, list[ProbeTargets]] = defaultdict(list)
    for route in wanted:
        by_processor[route.processor].append(route)

    async def one_processor(its: list[ProbeTargets]) -> None:
        for route in its:
            answers[route] = await _probe(endpoint, route)

    try:
        async with asyncio.timeout(_ALL_SECONDS):
            if wanted:
                await endpoint.listed()  # connects
            await asyncio.gather(*map(one_processor, by_processor.values()))
    except (TimeoutError, AuricleError):
        pass  # those without an answer were not reached
    return tuple(answers.get(route) or _answer(route, fault=NOT_REACHED) for route in wanted)


async def _probe(endpoint: ProbedEndpoint, route: ProbeTargets) -> ProbeAnswer:
    asked = AskProbe(route.encode_worker, route.pd_worker)
    try:
        steps = await endpoint.call(asked, Probed, route.processor, _PROBE_SECONDS)
    except AuricleError as error:
        return _answer(route, fault=error.code)
    assert isinstance(steps, Probed)
    return _answer(route, steps)


def _answer(route: ProbeTargets, steps: Probed | None = None, fault: str = "") -> ProbeAnswer:
    return ProbeAnswer(
        processor=f"{route.processor:x}",
        encode_worker=f"{route.encode_worker:x}",
        pd_worker=f"{route.pd_worker:x}",
        steps=steps,
        fault=fault,
    )


# Every diagnosis has every worker encode or decode a second of audio.
_REST_SECONDS = 2.0
_BUSY_SECONDS = 5.0


class Diagnostician:
    """One frontend's diagnoses. Use it on one event loop."""

    def __init__(
        self,
        settings: CommonSettings,
        deployment: Deployment,
        describe: Callable[[], Description],
        bus: Callable[[], BusState | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`describe` describes this process, and `bus` the transcript bus."""
        self._settings = settings
        self._deployment = deployment
        self._describe = describe
        self._bus = bus
        self._clock = clock
        self._busy = False
        self._rested = float("-inf")  # the time from which the next one may begin

    async def diagnose(self) -> Diagnosis:
        """Ask every process, then probe; takes at most a minute.

        Raises RateLimited while another diagnosis is made, and for 2 s after it.
        """
        if self._busy:
            raise RateLimited("another diagnosis is being made", _BUSY_SECONDS)
        if (rest := self._rested - self._clock()) > 0:
            raise RateLimited("a diagnosis was made just now", rest)
        self._busy = True
        try:
            return await self._diagnose()
        finally:
            self._busy = False
            self._rested = self._clock() + _REST_SECONDS

    async def look(self) -> Diagnosis:
        """Ask every process, but probe none: it costs them next to nothing, and takes 10 s at most.

        Raises nothing.
        """
        at, began = time.time(), self._clock()
        found = await census(self._deployment.processes)
        discovery = DiscoveryState(
            self._settings.discovery, await discovery_state(self._settings), found.unlisted
        )
        own = ProcessAnswer("frontend", "", 0.0, self._describe())
        return Diagnosis(
            namespace=self._settings.namespace,
            at=at,
            seconds=self._clock() - began,
            processes=(own, *found.answers),
            unasked=found.unasked,
            probes=(),
            discovery=discovery,
            bus=self._bus(),
            beside=beside(self._settings),
        )

    async def _diagnose(self) -> Diagnosis:
        found, began = await self.look(), self._clock()
        made = await probes(self._deployment.probe, routes(found.processes))
        seconds = found.seconds + self._clock() - began
        return msgspec.structs.replace(found, probes=made, seconds=seconds)
