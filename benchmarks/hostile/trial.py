"""Runs one area or attack in the attacker's process, with a concurrent witness."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import psutil
from msgspec.structs import replace

from auricle.audio.pcm import Int16
from auricle.core.aio import cancelled
from benchmarks.hostile import inputs
from benchmarks.hostile.areas import AREAS, ATTACKS
from benchmarks.hostile.attacker import CASE_SECONDS, Said, attacked
from benchmarks.hostile.attackers.inside import environment
from benchmarks.hostile.attackers.wire import AttackerFailed, Hung, Target
from benchmarks.hostile.attacks.newcomer import watching_live
from benchmarks.hostile.graph import Graph, Log, failures
from benchmarks.hostile.inputs import Case
from benchmarks.hostile.witness import Account, Witness

_END_SECONDS, _LIVE_SECONDS, _IMPORT_SECONDS = 10.0, 0.25, 60.0
_NICE = 10
_MIB, _MEMORY_SECONDS = 1 << 20, 0.1
# Of the frontend, above what its clock can tell apart from the witness's share.
_FEW_CPU_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """An area or attack, its size, and the time after which its process is killed.

    With `number`, it is a single case of an area.
    """

    name: str
    seed: int
    quick: bool = True
    number: int | None = None

    @property
    def area_seconds(self) -> float:
        """No case begins after that time."""
        return 4.0 if self.quick else 1_800.0

    @property
    def seconds(self) -> float:
        """The time after which its process is killed."""
        attack = ATTACKS.get(self.name)
        return attack.seconds if attack else self.area_seconds + CASE_SECONDS

    async def run(self, target: Target, begins: Callable[[Case], None]) -> Said:
        """Carry it out."""
        if self.name in ATTACKS:
            try:
                found = await ATTACKS[self.name].run(target, 0.1 if self.quick else 1.0)
            except (AttackerFailed, Hung, ExceptionGroup) as error:
                return Said(lost=repr(error))
            return Said(
                cases=found.cases, held=found.held, detail=found.detail, slowest=found.slowest
            )
        area = AREAS[self.name]
        count = area.quick if self.quick else area.full
        made: Iterable[Case] = inputs.cases(self.name, self.seed, count, area.strategy)
        if self.number is not None:
            made = [inputs.make(self.name, self.seed, self.number, area.strategy)]
        return await attacked(target, made, area.concurrent, self.area_seconds, begins)


def child(connection: Connection, last: Any, job: Job, target: Target) -> None:
    """The attacker's process; `last` is a shared array for the id of the latest case."""

    def begins(case: Case) -> None:
        last.value = case.id.encode()

    os.nice(_NICE)
    os.umask(0o077)  # the server's, for folders that Dynamo makes here
    os.environ.update(environment(target))
    began = time.process_time()
    said = asyncio.run(job.run(target, begins))
    said.cpu_seconds = time.process_time() - began
    connection.send(said)


@dataclass
class Row:
    """One area or attack: the attacker's result, the witness's account and text without an attack.

    `lags_before` and `lags_during` are of the witness, in seconds. `frontend_cpu_seconds` are those
    during the attack, less the witness's share at the rate before the attack.
    """

    name: str
    said: Said = field(default_factory=Said)
    account: Account = field(default_factory=Account)
    reference: Account | None = None
    lags_before: list[float] = field(default_factory=list)
    lags_during: list[float] = field(default_factory=list)
    seconds: float = 0.0
    frontend_mib_before: float = 0.0
    frontend_mib_highest: float = 0.0
    frontend_cpu_seconds: float = 0.0
    log_lines: int = 0
    log_failures: list[str] = field(default_factory=list)
    last_case: str = ""
    trouble: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether the witness's text differs from its text without an attack."""
        again = self.reference or self.account
        return not (self.account.error or again.error) and again.text != self.account.text

    @property
    def memory_growth(self) -> float:
        """The frontend's highest resident memory during the attack ÷ before; 0 if unknown."""
        before = self.frontend_mib_before
        return self.frontend_mib_highest / before if before else 0.0

    @property
    def cpu_share(self) -> float | None:
        """The attacker's CPU seconds ÷ the frontend's; None if those are few."""
        if self.frontend_cpu_seconds < _FEW_CPU_SECONDS:
            return None
        return self.said.cpu_seconds / self.frontend_cpu_seconds

    @property
    def outcome(self) -> str:
        """The attacker's result in words."""
        if self.said.lost:
            return f"not tried: {self.said.lost}"
        if self.said.held is not None:
            return f"{'held' if self.said.held else 'not held'}: {self.said.detail}"
        return ", ".join(f"{count} {name}" for name, count in self.said.verdicts.items())

    def __str__(self) -> str:
        trouble = " ".join((*self.trouble, self.account.error))
        return f"{self.name:24} {self.seconds:6.1f} s  {self.outcome}  {trouble}"


async def attacked_with_witness(
    graph: Graph, packets: Iterator[Int16], job: Job, log: Log, lead_seconds: float
) -> Row:
    """Run the job with a concurrent witness, which runs alone for `lead_seconds` before."""
    row, target = Row(job.name), await asyncio.to_thread(graph.target)
    log.since()
    witness = Witness(graph.server.url, graph.keys["witness"], packets)
    async with watching_live(graph.server.url, _LIVE_SECONDS) as live:
        await witness.begin()
        opened = time.monotonic()
        frontend = graph.server.component("Frontend")
        alone = _cpu_seconds(frontend)
        await asyncio.sleep(lead_seconds)
        began, before = time.monotonic(), _cpu_seconds(frontend)
        watching = asyncio.create_task(_watch_memory(frontend, row))
        await _run(job, replace(target, witness=witness.account.session), row)
        ended, after = time.monotonic(), _cpu_seconds(frontend)
        await cancelled([watching])
        row.account = await witness.end()
    row.seconds = ended - began
    witness_share = (before - alone) / (began - opened)
    row.frontend_cpu_seconds = after - before - witness_share * row.seconds
    row.lags_before = row.account.during(opened, began)
    row.lags_during = row.account.during(began, ended)
    lines = log.since()
    row.log_lines, row.log_failures = len(lines), failures(lines)
    row.trouble += live.failures[:3]
    return row


def prepare_attackers() -> None:
    """Let a server import this module and fork the attackers: the imports take seconds.

    Blocks until it has done so, for 60 s at most.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    first = context.Process(target=int)
    first.start()
    first.join(_IMPORT_SECONDS)


def _cpu_seconds(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0


async def _watch_memory(process: psutil.Process, row: Row) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        row.frontend_mib_before = process.memory_info().rss / _MIB
        while True:
            now = process.memory_info().rss / _MIB
            row.frontend_mib_highest = max(row.frontend_mib_highest, now)
            await asyncio.sleep(_MEMORY_SECONDS)


async def _run(job: Job, target: Target, row: Row) -> None:
    """Run the attacker's process, and put its result into the row."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    last: Any = context.Array("c", 80)
    process = context.Process(target=child, args=(theirs, last, job, target), daemon=True)
    process.start()
    theirs.close()
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(ours.fileno(), done.set)
    try:
        async with asyncio.timeout(job.seconds):
            await done.wait()
        row.said = ours.recv()
        await asyncio.to_thread(process.join, _END_SECONDS)
    except TimeoutError:
        row.trouble.append(f"the attacker was not done after {job.seconds:g} s")
    except EOFError:
        process.join()
        row.trouble.append(f"the attacker ended with {process.exitcode}")
    finally:
        loop.remove_reader(ours.fileno())
        process.kill()
        process.join()
        row.last_case = last.value.decode()
