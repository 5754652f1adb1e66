"""A deployment in a few lines: its pools, who is in them, how they are and how busy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from auricle.findings.finding import SILENT_SECONDS
from auricle.messages.diagnosis import (
    Description,
    Diagnosis,
    KvRoom,
    LoadNow,
    ProcessAnswer,
    SlabState,
)
from auricle.quoting import one_line

_POOLS = {
    "frontend": "frontend",
    "processor": "processors",
    "encode_worker": "encode workers",
    "pd_worker": "PD workers",
    "planner": "planners",
}
_HEAD = ("", "processes", "state", "in work", "busy", "slots used (leased)", "KV tokens")


class ProcessSeen(msgspec.Struct, frozen=True):
    """One process; `where` is its host and pid, or its instance if it did not answer.

    `state` is `well`, `draining`, `silent`, or the code of the error that was the answer.
    """

    where: str
    state: str
    load: LoadNow | None = None
    slab: SlabState | None = None
    kv: KvRoom | None = None


class PoolSeen(msgspec.Struct, frozen=True):
    """The processes of a component."""

    component: str
    processes: tuple[ProcessSeen, ...]


class Overview(msgspec.Struct, frozen=True):
    """What `auricle status --json` prints; `wrong` are sentences of `auricle doctor`."""

    url: str
    namespace: str
    well: bool
    wrong: tuple[str, ...]
    pools: tuple[PoolSeen, ...]


def overview(url: str, diagnosis: Diagnosis, wrong: Sequence[str]) -> Overview:
    """Return the pools of a diagnosis in the order of a chunk's way, then others."""
    there: dict[str, list[ProcessSeen]] = {c: [] for c in _POOLS if c != "planner"}
    for answer in diagnosis.processes:
        there.setdefault(answer.component, []).append(_seen(answer))
    pools = tuple(PoolSeen(component, tuple(its)) for component, its in there.items())
    return Overview(url, diagnosis.namespace, not wrong, tuple(wrong), pools)


def status_lines(seen: Overview) -> Iterator[str]:
    """Yield the lines, without what a terminal would take for a command."""
    state = "well" if seen.well else f"{len(seen.wrong)} wrong"
    yield one_line(f"{seen.url}, namespace {seen.namespace}: {state}")
    rows: list[Sequence[str]] = [_HEAD]
    for pool in seen.pools:
        rows.append(_pool_row(pool))
        if len(pool.processes) > 1:
            rows += [_process_row(process) for process in pool.processes]
    yield from map(one_line, _columns(rows))
    for what in seen.wrong:
        yield one_line(f"WRONG: {what}")
    if seen.wrong:
        yield one_line(f"`auricle doctor {seen.url}` says why it matters and what to do.")


def _seen(answer: ProcessAnswer) -> ProcessSeen:
    said = answer.description
    if said is None:
        return ProcessSeen(f"instance {answer.instance}", answer.fault)
    parts = said.parts
    where = f"{said.host}, pid {said.pid}"
    return ProcessSeen(where, _state(said), parts.load, parts.slab, parts.kv)


def _state(said: Description) -> str:
    if said.silent_seconds >= SILENT_SECONDS:
        return "silent"
    return "draining" if said.draining else "well"


def _pool_row(pool: PoolSeen) -> tuple[str, ...]:
    name = _POOLS.get(pool.component, pool.component)
    states = ", ".join(dict.fromkeys(p.state for p in pool.processes)) or "none there"
    parts = [[getattr(p, part) for p in pool.processes] for part in ("load", "slab", "kv")]
    return (name, str(len(pool.processes)), states, *_amounts(*parts))


def _process_row(process: ProcessSeen) -> tuple[str, ...]:
    amounts = _amounts([process.load], [process.slab], [process.kv])
    return (f"  {process.where}", "", process.state, *amounts)


def _amounts(
    loads: Iterable[LoadNow | None],
    slabs: Iterable[SlabState | None],
    rooms: Iterable[KvRoom | None],
) -> tuple[str, str, str, str]:
    """Return the sums of what is in work, of slots and of KV tokens, and the mean busy share."""
    load, slab = [one for one in loads if one], [one for one in slabs if one]
    work, busy = "", [one.busy for one in load if one.busy is not None]
    if load:
        work = f"{sum(o.now for o in load)} of {sum(o.limit for o in load)} {load[0].unit}"
    slots, leased = sum(one.slots for one in slab), sum(one.leased for one in slab)
    tokens = sum(one.tokens for one in rooms if one)
    return (
        work,
        f"{100 * sum(busy) / len(busy):.0f}%" if busy else "",
        f"{sum(one.used for one in slab)} of {slots} ({leased})" if slab else "",
        str(tokens) if tokens else "",
    )


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
