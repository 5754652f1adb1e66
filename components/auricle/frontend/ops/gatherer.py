"""Gathers the reports of all processes of the deployment.

`auricle doctor`, `auricle status` and the operations page all show what `Gatherer` collects.
Nothing is connected before the first question.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from auricle.config.settings import CommonSettings
from auricle.core.errors import AuricleError, RateLimited
from auricle.dynamo import Runtime
from auricle.load.pools import OPTIONAL_POOLS
from auricle.protocol import WIRE
from auricle.protocol.control import AskDecisions, Decisions
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
from auricle.protocol.views import AskView, View

R = TypeVar("R", bound=msgspec.Struct)

# The path of a chunk, and the planner; the optional pools follow from the settings.
COMPONENTS = ("processor", "encode_worker", "pd_worker", "planner")
MAX_PROCESSES = 256  # asked at once
MAX_PROBES = 64
NOT_REACHED = "not_reached"
_DESCRIPTION_SECONDS = 3.0
_VIEW_SECONDS = 2.0
_PROBE_SECONDS, _ALL_PROBES_SECONDS = 20.0, 40.0
_PROBED = ("processor", "encode_worker", "pd_worker")
_ETCD_PORT = 2379
_CONNECT_SECONDS = 2.0
# Every diagnosis has every worker encode or decode a second of audio.
_REST_SECONDS, _BUSY_SECONDS = 2.0, 5.0
# The operations page asks for descriptions less often than for views.
_INVENTORY_SECONDS = 6.0


class Endpoint(Protocol):
    """The part of `RemoteEndpoint` that is used here."""

    async def listed(self) -> list[int]: ...

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> msgspec.Struct: ...


@dataclass(frozen=True)
class Answer(Generic[R]):
    """The reply of one instance after `seconds`; without one, `fault` is the error's code."""

    instance: int
    seconds: float
    reply: R | None = None
    fault: str = ""


async def ask(
    endpoint: Endpoint, question: msgspec.Struct, kind: type[R], instance: int, seconds: float
) -> Answer[R]:
    """Ask one instance. Raises nothing."""
    began = time.monotonic()
    try:
        reply = cast(R, await endpoint.call(question, kind, instance, seconds))
    except AuricleError as error:
        return Answer(instance, time.monotonic() - began, fault=error.code)
    return Answer(instance, time.monotonic() - began, reply)


async def instances_of(endpoint: Endpoint) -> list[int] | None:
    """Return the instances in discovery, sorted; None if discovery gave no answer."""
    try:
        return sorted(await endpoint.listed())
    except AuricleError:
        return None


# ── descriptions ────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Inventory:
    """The answers in order of component and instance, and the processes without an answer."""

    answers: tuple[ProcessAnswer, ...]
    unasked: int
    unlisted: tuple[str, ...]


async def inventory(
    processes: Mapping[str, Endpoint], wall_clock: Callable[[], float] = time.time
) -> Inventory:
    """Ask all processes for a description at once, each with a deadline of 3 s. Raises nothing."""
    listed = await asyncio.gather(*map(instances_of, processes.values()))
    by_component = dict(zip(processes, listed, strict=True))
    found = [(c, instance) for c, some in by_component.items() for instance in some or ()]

    async def describe(component: str, instance: int) -> ProcessAnswer:
        sent, endpoint = wall_clock(), processes[component]
        answer = await ask(endpoint, AskDescription(), Description, instance, _DESCRIPTION_SECONDS)
        ahead = answer.reply.clock - (sent + answer.seconds / 2) if answer.reply else 0.0
        return ProcessAnswer(
            component, f"{instance:x}", answer.seconds, answer.reply, ahead, answer.fault
        )

    answers = await asyncio.gather(*(describe(*one) for one in found[:MAX_PROCESSES]))
    unlisted = tuple(c for c, some in by_component.items() if some is None)
    return Inventory(tuple(answers), len(found) - len(answers), unlisted)


async def discovery_state(settings: CommonSettings) -> str:
    """Return `up`, `down`, or `unknown` if the backend cannot be tested. Raises nothing.

    The directory of `file` must exist; one of etcd's endpoints must accept connections.
    """
    if settings.discovery == "file":
        exists = await asyncio.to_thread(settings.discovery_path.is_dir)
        return "up" if exists else "down"
    if settings.discovery == "etcd" and settings.etcd_endpoints:
        endpoints = settings.etcd_endpoints.split(",")
        accepted = await asyncio.gather(*(_accepts_connections(one.strip()) for one in endpoints))
        return "up" if any(accepted) else "down"
    return "unknown"


async def _accepts_connections(endpoint: str) -> bool:
    try:
        url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(url.hostname, url.port or _ETCD_PORT)
    except (OSError, ValueError, TimeoutError):
        return False
    writer.close()
    return True


# ── probes ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ProbeTargets:
    """The instances that take part in a probe."""

    processor: int
    encode_worker: int
    pd_worker: int


def probe_targets(answers: Iterable[ProcessAnswer]) -> tuple[ProbeTargets, ...]:
    """Return the fewest probes that include every instance that answers and stays, at most 64.

    Not every pair of workers: their number is the product of the pools. Processors that do not
    accept this frontend's version of the wire take no part.
    """
    staying = [
        (answer.component, int(answer.instance or "0", 16), answer.description.wires)
        for answer in answers
        if answer.description is not None and not answer.description.draining
    ]
    found: list[ProbeTargets] = []
    processors = _accepting(WIRE, _PROBED[0], staying)
    for sent in sorted({wires[1] for wires in processors.values()}):
        pools = [
            [processor for processor, wires in processors.items() if wires[1] == sent],
            *([*_accepting(sent, component, staying)] for component in _PROBED[1:]),
        ]
        most = max(map(len, pools)) if all(pools) else 0
        found += [ProbeTargets(*(pool[n % len(pool)] for pool in pools)) for n in range(most)]
    return tuple(found[:MAX_PROBES])


def _accepting(
    wire: int, component: str, staying: Iterable[tuple[str, int, tuple[int, int]]]
) -> dict[int, tuple[int, int]]:
    """Return the instances of the component that accept this version, and their ranges."""
    return {
        instance: wires
        for name, instance, wires in staying
        if name == component and wires[0] <= wire <= wires[1]
    }


async def probes(endpoint: Endpoint, wanted: Sequence[ProbeTargets]) -> tuple[ProbeAnswer, ...]:
    """Make these probes, one at a time on each processor, for at most 40 s. Raises nothing."""
    answers: dict[ProbeTargets, Answer[Probed]] = {}
    by_processor: defaultdict[int, list[ProbeTargets]] = defaultdict(list)
    for targets in wanted:
        by_processor[targets.processor].append(targets)

    async def one_processor(its: list[ProbeTargets]) -> None:
        for one in its:
            question = AskProbe(one.encode_worker, one.pd_worker)
            answers[one] = await ask(endpoint, question, Probed, one.processor, _PROBE_SECONDS)

    try:
        async with asyncio.timeout(_ALL_PROBES_SECONDS):
            if wanted:
                await endpoint.listed()  # connects
            await asyncio.gather(*map(one_processor, by_processor.values()))
    except (TimeoutError, AuricleError):
        pass  # probes without an answer were not reached
    return tuple(_probe_answer(one, answers.get(one)) for one in wanted)


def _probe_answer(targets: ProbeTargets, answer: Answer[Probed] | None) -> ProbeAnswer:
    return ProbeAnswer(
        processor=f"{targets.processor:x}",
        encode_worker=f"{targets.encode_worker:x}",
        pd_worker=f"{targets.pd_worker:x}",
        steps=None if answer is None else answer.reply,
        fault=NOT_REACHED if answer is None else answer.fault,
    )


# ── everything ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Snapshot:
    """The answers at `at` (Unix seconds): views and decisions by instance id in hex.

    The diagnosis has no probes; it was made `diagnosis_age` seconds before.
    """

    at: float
    diagnosis: Diagnosis
    diagnosis_age: float
    views: Mapping[str, View]
    decisions: Mapping[str, Decisions]


@dataclass
class Gatherer:
    """Asks the processes of one frontend's deployment. Use it on one event loop.

    `processes` are the endpoints for descriptions, by component. `describe` describes this
    process, and `bus` the transcript bus.
    """

    settings: CommonSettings
    processes: Mapping[str, Endpoint]
    probe: Endpoint
    views: Endpoint
    decisions: Endpoint
    describe: Callable[[], Description]
    bus: Callable[[], BusState | None]
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    _inventory: tuple[float, Diagnosis] | None = field(default=None, init=False)
    _diagnosing: bool = field(default=False, init=False)
    _rested: float = field(default=float("-inf"), init=False)  # when the next one may begin

    @classmethod
    def of(
        cls, runtime: Runtime, settings: CommonSettings, bus: Callable[[], BusState | None]
    ) -> Gatherer:
        return cls(
            settings,
            {c: runtime.asking(c) for c in (*COMPONENTS, *_optional_pools(settings))},
            probe=runtime.client("processor", "probe"),
            views=runtime.client("processor", "view", local=True),
            decisions=runtime.client("planner", "decisions"),
            describe=runtime.description.now,
            bus=bus,
        )

    async def inventory(self) -> Diagnosis:
        """Ask every process for a description, without probes; takes at most 10 s.

        Raises nothing.
        """
        at, began = self.wall_clock(), self.clock()
        found = await inventory(self.processes, self.wall_clock)
        state = await discovery_state(self.settings)
        own = ProcessAnswer("frontend", "", 0.0, self.describe())
        return Diagnosis(
            namespace=self.settings.namespace,
            at=at,
            seconds=self.clock() - began,
            processes=(own, *found.answers),
            unasked=found.unasked,
            probes=(),
            discovery=DiscoveryState(self.settings.discovery, state, found.unlisted),
            bus=self.bus(),
            optional_pools=_optional_pools(self.settings),
        )

    async def diagnose(self) -> Diagnosis:
        """Ask every process, then probe; takes at most a minute.

        Raises RateLimited while another diagnosis is in progress, and for 2 s after it.
        """
        if self._diagnosing:
            raise RateLimited("another diagnosis is being made", _BUSY_SECONDS)
        if (rest := self._rested - self.clock()) > 0:
            raise RateLimited("a diagnosis was made just now", rest)
        self._diagnosing = True
        try:
            found, began = await self.inventory(), self.clock()
            made = await probes(self.probe, probe_targets(found.processes))
            seconds = found.seconds + self.clock() - began
            return msgspec.structs.replace(found, probes=made, seconds=seconds)
        finally:
            self._diagnosing = False
            self._rested = self.clock() + _REST_SECONDS

    async def snapshot(self, steps_of: tuple[str, ...]) -> Snapshot:
        """Return the views and decisions that arrived within 2 s; see `AskView` for `steps_of`.

        Descriptions are at most 6 s old. One call at a time; the first takes some seconds longer,
        because it connects.
        """
        views, decisions, (at, diagnosis) = await asyncio.gather(
            self._replies(self.views, AskView(steps_of), View),
            self._replies(self.decisions, AskDecisions(), Decisions),
            self._recent_inventory(),
        )
        return Snapshot(self.wall_clock(), diagnosis, self.clock() - at, views, decisions)

    async def _recent_inventory(self) -> tuple[float, Diagnosis]:
        known = self._inventory
        if known is None or self.clock() - known[0] >= _INVENTORY_SECONDS:
            known = self._inventory = (self.clock(), await self.inventory())
        return known

    async def _replies(
        self, endpoint: Endpoint, question: msgspec.Struct, kind: type[R]
    ) -> dict[str, R]:
        """Return the replies by instance id in hex; the diagnosis covers the other instances."""
        answers = await asyncio.gather(
            *(
                ask(endpoint, question, kind, instance, _VIEW_SECONDS)
                for instance in await instances_of(endpoint) or ()
            )
        )
        return {f"{one.instance:x}": one.reply for one in answers if one.reply is not None}


def _optional_pools(settings: CommonSettings) -> tuple[str, ...]:
    """Return the components of the annotation pools for which the settings name a model."""
    return tuple(pool.kind for pool in OPTIONAL_POOLS if pool.there(settings))
