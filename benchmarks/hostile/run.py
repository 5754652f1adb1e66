"""The whole campaign: areas and attacks one after the other, then what they left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.hostile.areas import AREAS, Area
from benchmarks.hostile.attacks.newcomer import is_transcribed
from benchmarks.hostile.beside import Job, Row, attacked_beside
from benchmarks.hostile.campaign import CAMPAIGN
from benchmarks.hostile.graph import Graph
from benchmarks.hostile.watch import Footprint, Log, footprint
from benchmarks.hostile.witness import Account, Witness, alone, speech

_WARM_SECONDS = 6.0
_WITNESSES_AT_ONCE = 6
_SETTLE_SECONDS = 45.0
_LAST_CASES_SECONDS = 60.0


@dataclass(frozen=True)
class Scale:
    """How much of everything: the quick numbers of cases or all, within `area_seconds` for each
    area; the size of attacks (0 to 1]; and how long a witness is alone before each."""

    quick: bool
    area_seconds: float
    attack: float
    lead_seconds: float

    def count(self, area: Area) -> int:
        """The number of an area's cases."""
        return area.quick if self.quick else area.full


QUICK = Scale(True, 20.0, 0.1, 1.0)
FULL = Scale(False, 1_800.0, 1.0, 6.0)


@dataclass
class Campaign:
    """What the campaign found."""

    rows: list[Row] = field(default_factory=list)
    references: dict[str, Account] = field(default_factory=dict)
    before: Footprint | None = None
    after: Footprint | None = None
    main_pids: dict[str, tuple[int, int]] = field(default_factory=dict)


async def run(graph: Graph, seed: int, scale: Scale, only: Sequence[str], found: Campaign) -> None:
    """Run all areas and attacks, or those in `only`, and add what is found as it is found."""
    names = [name for name in (*AREAS, *CAMPAIGN) if not only or name in only]
    key = graph.keys["witness"]
    await _warm_up(graph, seed)
    found.before = await asyncio.to_thread(footprint, graph.server, graph.folder)
    pids = _pids(graph)
    log = Log(graph.server.log)
    for number, name in enumerate(names):
        packets = speech(seed * 1_000 + number)
        job = _job(name, seed, scale)
        target = await asyncio.to_thread(graph.target)
        row = await attacked_beside(
            graph.server.url, key, packets, target, job, log, scale.lead_seconds,
            graph.folder.parent,
        )  # fmt: skip
        found.rows.append(row)
        print(_line(row), flush=True)
        if name in AREAS:
            await asyncio.sleep(AREAS[name].forgotten_seconds)
    await _references(graph, found)
    found.after = await _settled(graph, found.before)
    found.main_pids = {name: (pid, _pids(graph).get(name, 0)) for name, pid in pids.items()}


def _job(name: str, seed: int, scale: Scale) -> Job:
    if name in CAMPAIGN:
        return Job(name, ("--scale", str(scale.attack)), CAMPAIGN[name].seconds)
    count = scale.count(AREAS[name])
    seconds = str(scale.area_seconds)
    arguments = ("--seed", str(seed), "--count", str(count), "--seconds", seconds)
    return Job(name, arguments, scale.area_seconds + _LAST_CASES_SECONDS)


def _line(row: Row) -> str:
    held = row.said.get("held", row.said.get("verdicts"))
    detail = row.said.get("detail", row.said.get("lost", ""))
    worst = max(row.beside, default=0.0)
    return (
        f"{row.name:24} {row.seconds:6.1f} s  {held}  lag ≤ {worst:.2f} s  "
        f"{row.log_lines} lines {detail} {row.trouble} {row.account.error}"
    )


async def _warm_up(graph: Graph, seed: int) -> None:
    """Use every way in once, so that what is kept from then on is there before the first look."""
    witnesses = [
        Witness(graph.server.url, graph.keys["witness"], speech(seed * 1_000 + 900 + number))
        for number in range(3)
    ]
    for witness in witnesses:
        await witness.begin()
    await asyncio.sleep(_WARM_SECONDS)
    for witness in witnesses:
        await witness.end()
    target = graph.target()
    for _ in range(2):
        await is_transcribed(target, 60.0)


async def _references(graph: Graph, found: Campaign) -> None:
    """What each witness says when nobody attacks: some of about one length at a time, since each
    group waits for its longest, and once more alone where the text differs."""
    rows = [row for row in found.rows if row.account.packets]
    rows.sort(key=lambda row: len(row.account.packets))
    url, key = graph.server.url, graph.keys["witness"]
    for at in range(0, len(rows), _WITNESSES_AT_ONCE):
        some = rows[at : at + _WITNESSES_AT_ONCE]
        told = await asyncio.gather(*(alone(url, key, row.account.packets) for row in some))
        found.references |= {row.name: one for row, one in zip(some, told, strict=True)}
    for row in rows:
        if found.references[row.name].text != row.account.text:
            found.references[row.name] = await alone(url, key, row.account.packets)


async def _settled(graph: Graph, before: Footprint) -> Footprint:
    """What the graph holds once it is as before, or after 45 s."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        now = await asyncio.to_thread(footprint, graph.server, graph.folder)
        same = now.files <= before.files and all(
            now.components[name].descriptors <= held.descriptors
            and now.components[name].processes <= held.processes
            for name, held in before.components.items()
            if name in now.components
        )
        if same or time.monotonic() > deadline:
            return now
        await asyncio.sleep(1.0)


def _pids(graph: Graph) -> dict[str, int]:
    found = {}
    for name in ("Frontend", "Processor", "EncodeWorker", "PdWorker", "TranslateWorker"):
        try:
            found[name] = graph.server.component(name).pid
        except LookupError:
            found[name] = 0
    return found
