"""The figures of a campaign. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.beside import Row
from benchmarks.hostile.run import Campaign

# A process that was used keeps what its allocator and its bounded caches have taken: slots of the
# slab that were never touched before, kernels for shapes of batches, arenas of threads. Warming
# up does not reach all of it. A leak of what clients send is larger: the campaign sends gigabytes.
MEMORY_TOLERANCE_MIB = 96.0
# Threads of pools that start as they are needed, and connections between the graph's own
# processes, are kept.
DESCRIPTORS_TOLERANCE = 24
# Of an attack on the log: what repeats is counted and summed up.
_FLOOD_LINES, _FLOOD_LINES_PER_CASE = 40, 0.3


def figures(found: Campaign) -> dict[str, float]:
    """The figures that have a bar."""
    rows = found.rows
    wrong = [one["verdict"] for row in rows for one in row.remarkable]
    grown = {row.name: growth(row, _alone(rows)) for row in rows}
    return {
        # What the campaign's attacks send besides is not counted as cases.
        "hostile_cases": sum(cases(row) for row in rows if row.name in AREAS),
        "crashes": crashes(found),
        "hangs": wrong.count("hang") + sum("did not answer" in row.trouble for row in rows),
        "answers_5xx": wrong.count("failed"),
        "answers_leaking": wrong.count("leaked"),
        "attacks_not_held": sum(row.said.get("held") is False or flooded(row) for row in rows),
        "witness_changed_text": sum(changed(row, found) for row in rows),
        "witness_errors": sum(bool(row.account.error) for row in rows),
        "witness_lag_p95_growth": max(grown.values(), default=0.0),
        "log_lines_worst": max((row.log_lines for row in rows), default=0),
        "log_failures": sum(len(row.log_failures) for row in rows),
        "attackers_failed": sum(attacker_failed(row) or uncompared(row, found) for row in rows),
        **left(found),
    }


def cases(row: Row) -> int:
    """The cases of a row that were tried."""
    return int(row.said.get("tried", row.said.get("cases", 0)))


def flooded(row: Row) -> bool:
    """Whether the attack on the log filled it."""
    most = _FLOOD_LINES + _FLOOD_LINES_PER_CASE * cases(row)
    return row.name == "log_flood" and row.log_lines > most


def attacker_failed(row: Row) -> bool:
    """Whether the attacker itself failed, which says nothing of the server."""
    lost = row.said.get("verdicts", {}).get("lost", 0)
    failed = "the attacker" in row.trouble or "lost" in row.said or not row.said
    return bool(failed or lost > 0.01 * cases(row))


def crashes(found: Campaign) -> int:
    """Components whose process is no longer the one it was, or is gone."""
    return sum(before != after for before, after in found.main_pids.values())


def changed(row: Row, found: Campaign) -> bool:
    """Whether the witness's text is not what it is alone. One that failed has no text."""
    reference = found.references.get(row.name)
    if row.account.error or reference is None or reference.error:
        return False
    return reference.text != row.account.text


def uncompared(row: Row, found: Campaign) -> bool:
    """Whether the witness could not say the same again alone, so that nothing is known."""
    reference = found.references.get(row.name)
    return reference is not None and bool(reference.error)


def _alone(rows: Sequence[Row]) -> list[float]:
    """The lags of all witnesses before their attacks: one of them alone has few."""
    return [lag for row in rows for lag in row.alone]


def growth(row: Row, alone: Sequence[float]) -> float:
    """95th percentile of the lag beside the attack ÷ before all attacks; 0 if too little was
    said to tell."""
    if len(row.beside) < 3 or len(alone) < 3:
        return 0.0
    return float(np.percentile(row.beside, 95) / np.percentile(alone, 95))


def left(found: Campaign) -> dict[str, float]:
    """What the graph holds after the campaign and did not before, of the worst component."""
    before, after = found.before, found.after
    if before is None or after is None:
        return {}
    both = [
        (held, after.components[name])
        for name, held in before.components.items()
        if name in after.components
    ]
    return {
        "memory_left_mib": max((b.memory_mib - a.memory_mib for a, b in both), default=0.0),
        "descriptors_left": max((b.descriptors - a.descriptors for a, b in both), default=0),
        "processes_left": sum(max(0, b.processes - a.processes) for a, b in both),
        "files_left": len(after.files - before.files),
    }
