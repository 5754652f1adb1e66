"""Figures of sessions under overload, from their records. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchmarks.load.metrics import Slo, partial_latencies
from benchmarks.load.record import Record
from benchmarks.load.trial import Trial
from benchmarks.statistics import percentile


def goodput(trial: Trial) -> float:
    """Return the mean number of sessions that were inside the SLO, over the time that counts."""
    kept = sum(r.plan.seconds for r in trial.records if trial.load.slo.kept(r))
    return kept / max(1e-9, trial.scored_seconds)


def share(records: Iterable[Record], slo: Slo) -> float:
    """Return the share of admitted sessions that were inside the SLO; NaN without any."""
    let_in = [r for r in records if r.outcome in ("done", "failed")]
    return sum(slo.kept(r) for r in let_in) / len(let_in) if let_in else math.nan


def began_within(trial: Trial, begin: float, end: float) -> list[Record]:
    """Return the sessions that were admitted between two times (s since the trial's begin)."""
    first = min((r.began for r in trial.offered), default=0.0)
    return [r for r in trial.ended if begin <= r.began - first < end]


def unclear(records: Iterable[Record]) -> int:
    """Count refusals after the handshake or without Retry-After."""
    refused = [r for r in records if r.outcome == "refused"]
    return sum(not (r.reason.startswith("HTTP status") and r.retry_after > 0) for r in refused)


def refused_clients(records: Iterable[Record]) -> int:
    """Count clients that were refused at least once."""
    return len({r.plan.name for r in records if r.outcome == "refused"})


def waits(records: Iterable[Record]) -> list[float]:
    """Return the seconds from each client's first handshake to the accepted one."""
    first: dict[str, float] = {}
    found = []
    for record in sorted(records, key=lambda r: r.began):
        asked = first.setdefault(record.plan.name, record.began)
        if record.outcome != "refused" and record.chunk_seconds is not None:
            found.append(record.began - asked)
    return found


def latency_p95(records: Iterable[Record]) -> float:
    """Return the 95th percentile of a partial's time, from its last packet to its text (s)."""
    return percentile([s for r in records for s in partial_latencies(r)], 0.95)
