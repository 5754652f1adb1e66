"""The figures of a campaign. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.hostile.areas import AREAS, ATTACKS
from benchmarks.hostile.graph import Footprint
from benchmarks.hostile.oracle import Verdict
from benchmarks.hostile.trial import Row

# The log during an attack on it: repeated lines are counted and summed up.
# Half of the attack's cases have a key, and the log has a line for each call with a key.
_FLOOD_LINES, _FLOOD_LINES_PER_CASE = 40, 0.5
_MOST_SHOWN = 4_000


@dataclass
class Campaign:
    """The results: rows, and the resources before and after."""

    rows: list[Row] = field(default_factory=list)
    before: Footprint | None = None
    after: Footprint | None = None


def figures(found: Campaign) -> dict[str, float]:
    """The figures of METRICS.md."""
    rows = found.rows
    wrong = [outcome.verdict for row in rows for _, outcome in row.said.remarkable]
    return {
        # The inputs of attacks are not counted.
        "hostile_cases": sum(row.said.cases for row in rows if row.name in AREAS),
        "crashes": _crashes(found),
        "hangs": wrong.count(Verdict.HANG)
        + sum("not answer" in "".join(row.trouble) for row in rows),
        "answers_5xx": wrong.count(Verdict.FAILED),
        "answers_leaking": wrong.count(Verdict.LEAKED),
        "attacks_not_held": sum(row.said.held is False or _flooded(row) for row in rows),
        "witness_changed_text": sum(row.changed for row in rows),
        "witness_errors": sum(bool(row.account.error) for row in rows),
        "witness_lag_p95_growth": max((_growth(row, rows) for row in rows), default=0.0),
        "frontend_memory_growth": max((row.memory_growth for row in rows), default=0.0),
        "attacker_cpu_share": min(_cpu_shares(rows), default=1.0),
        "newcomer_seconds_worst": max((row.said.slowest for row in rows), default=0.0),
        "log_lines_worst": max((row.log_lines for row in rows), default=0),
        "log_failures": sum(len(row.log_failures) for row in rows),
        "attackers_failed": sum(map(_attacker_failed, rows)),
        **_left(found),
    }


def _cpu_shares(rows: Sequence[Row]) -> list[float]:
    """Of the attacks without a key."""
    keyless = [row for row in rows if row.name in ATTACKS and ATTACKS[row.name].keyless]
    return [row.cpu_share for row in keyless if row.cpu_share is not None]


def _flooded(row: Row) -> bool:
    """Whether the attack on the log filled it."""
    most = _FLOOD_LINES + _FLOOD_LINES_PER_CASE * row.said.cases
    return row.name == "log_flood" and row.log_lines > most


def _attacker_failed(row: Row) -> bool:
    """Whether the attacker itself failed, or the witness without an attack."""
    said, uncompared = row.said, row.reference is not None and row.reference.error
    failed = "the attacker" in "".join(row.trouble) or said.lost or not said.cases
    return bool(failed or uncompared or said.verdicts["lost"] > 0.01 * said.cases)


def _crashes(found: Campaign) -> int:
    """Components whose process is another one, or has ended."""
    if found.before is None or found.after is None:
        return 0
    return sum(found.after.pids.get(name) != pid for name, pid in found.before.pids.items())


def _growth(row: Row, rows: Sequence[Row]) -> float:
    """95th percentile of the lag during the attack ÷ before all attacks; 0 for too few lags."""
    before = [lag for one in rows for lag in one.lags_before]
    if len(row.lags_during) < 3 or len(before) < 3:
        return 0.0
    return float(np.percentile(row.lags_during, 95) / np.percentile(before, 95))


def _left(found: Campaign) -> dict[str, float]:
    """The resources of the worst component after the campaign, minus those before."""
    if found.before is None or found.after is None:
        return {}
    before, after = found.before.components, found.after.components
    both = [(before[name], after[name]) for name in before.keys() & after.keys()]
    return {
        "memory_left_mib": max(b.memory_mib - a.memory_mib for a, b in both),
        "descriptors_left": max(b.descriptors - a.descriptors for a, b in both),
        "processes_left": sum(max(0, b.processes - a.processes) for a, b in both),
        "files_left": len(found.after.files - found.before.files),
    }


def details(found: Campaign) -> dict[str, Any]:
    """Rows, unexpected cases and resources for the result file."""
    given = (
        *("name", "outcome", "seconds", "lags_before", "lags_during", "log_lines", "log_failures"),
        *("last_case", "trouble", "changed", "memory_growth", "cpu_share"),
    )
    rows = [
        {name: getattr(row, name) for name in given}
        | {"cases": row.said.cases, "lag_growth": _growth(row, found.rows)}
        | {"slowest": row.said.slowest, "attacker_cpu_seconds": row.said.cpu_seconds}
        | {"text": row.account.text, "text_alone": row.reference and row.reference.text}
        | {"error_alone": row.reference and row.reference.error}
        for row in found.rows
    ]
    unexpected = [
        asdict(outcome) | {"id": case.id, "sent": repr(case.input)[:_MOST_SHOWN]}
        for row in found.rows
        for case, outcome in row.said.remarkable
    ]
    held = {
        when: {name: asdict(one) for name, one in footprint.components.items()}
        for when, footprint in (("before", found.before), ("after", found.after))
        if footprint is not None
    }
    return {"rows": rows, "unexpected": unexpected, "held": held}
