"""The figures of a run, from its rows. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.faults.kinds import CONTROL, KINDS
from benchmarks.statistics import percentile

Row = dict[str, Any]
# (seconds since the first sample was due, up to where in the audio text goes, in ms)
Heard = tuple[float, float]
RECOVERIES = ("worker", "processor", "frozen")
_SPOKEN_AFTER_MS = 5_000.0
# Text must resume within this time. The delays of two closer faults cannot be distinguished.
_APART_SECONDS = 5.0


def recovery_seconds(
    undisturbed: Sequence[Heard],
    found: Sequence[Heard],
    at_seconds: float,
    until_seconds: float = math.inf,
) -> float | None:
    """Return how long text stood still because of a fault `at_seconds` after the session began.

    It is the longest delay, compared with the undisturbed run, of the text of the 5 s of speech
    from then on. Events in transit at that moment therefore do not count. It is infinite if the
    text never arrived. The next fault was at `until_seconds`, and later text belongs to that fault;
    None if all text does.
    """
    later = [(at, ms) for at, ms in undisturbed if ms > 1_000 * at_seconds]
    if later and later[0][0] >= until_seconds:
        return None
    later = [(at, ms) for at, ms in later if at < until_seconds]
    # At the end of the audio, or before a pause, the fault delays the next text.
    near = [heard for heard in later if heard[1] <= 1_000 * at_seconds + _SPOKEN_AFTER_MS]
    delays = [first_after(found, ms) - at for at, ms in near or later[:1]]
    return max(0.0, *delays) if delays else 0.0


def first_after(found: Sequence[Heard], ms: float) -> float:
    """Return when text up to `ms` of the audio came; infinite if it never did."""
    # Where a segment ends may differ by a frame or two between two runs.
    return min((at for at, reached in found if reached >= ms - 100), default=math.inf)


def figures(rows: Iterable[Row]) -> dict[str, float]:
    """Return the figures that have a bar, of all rows of a run."""
    rows = list(rows)
    tried = [row for row in rows if row["type"] == "fault"]
    faults = [row for row in tried if row["kind"] != CONTROL.name]
    left = [row for row in rows if row["type"] == "left"]
    found: dict[str, float] = {
        "faults_injected": sum(bool(row["injected"]) for row in faults),
        "kinds": len({row["kind"] for row in faults if row["injected"]}),
        "words_lost": sum(row["lost"] for row in tried),
        "words_doubled": sum(row["doubled"] for row in tried),
        "words_changed": sum(row["changed"] for row in tried),
        "transcripts_identical_share": _share(row["identical"] for row in faults),
        "sessions_failed": sum(bool(row["error"]) for row in tried),
        "promises_broken": sum(bool(row["broken"]) for row in tried),
        "bus_lost": sum(row["missing"] for row in rows if row["type"] == "bus"),
        "bus_doubled": sum(row["surplus"] for row in rows if row["type"] == "bus"),
        "resumes": sum(row["resumes"] for row in tried),
        "resume_events_lost_or_doubled": sum(
            row["events_lost"] + row["events_doubled"] for row in tried if row["resumes"]
        ),
        "left_behind": sum(len(row["what"]) for row in left),
        "faults_not_injected": sum(not row["injected"] for row in faults),
    }
    together: list[float] = []
    for name in RECOVERIES:
        kinds = {k.name for k in KINDS.values() if k.recovery == name}
        together += recoveries(tried, kinds, alone=False)
        if seconds := recoveries(tried, kinds, alone=True):
            found[f"recovery_p95_{name}_s"] = _p95(seconds)
    if together:
        found["recovery_p95_together_s"] = _p95(together)
    return found


def recoveries(rows: Iterable[Row], kinds: set[str], *, alone: bool | None = None) -> list[float]:
    """Return the recovery of every session that was live when a fault of these kinds came.

    `alone`: only if no other fault came to the session within 5 s, or only if one did.
    """
    return [
        hit["recovery"]
        for row in rows
        for hit in row["hits"]
        if hit["kind"] in kinds
        and hit["recovery"] is not None
        and alone in (None, _is_alone(hit, row["hits"]))
    ]


def _is_alone(hit: Row, hits: Sequence[Row]) -> bool:
    return not any(
        other is not hit and abs(other["at"] - hit["at"]) < _APART_SECONDS for other in hits
    )


def _p95(seconds: Sequence[float]) -> float:
    """Return the 95th percentile; infinite if more than a twentieth never recovered."""
    return percentile(seconds, 0.95, method="higher")


def _share(values: Iterable[bool]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0
