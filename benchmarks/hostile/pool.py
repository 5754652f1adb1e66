"""Runs the cases of an area against a target, several at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.hostile.areas import Area, Attack, attacker
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import AttackerFailed, Hung
from benchmarks.hostile.case import TRIED, UNEXPECTED, Case, Outcome, Verdict

# A case that was told to come again does, so many times, later each time.
_TRIES = 6
_AGAIN_SECONDS = 0.5
# Longer than all waits of one case together.
CASE_SECONDS = 60.0


@dataclass
class Tally:
    """What became of an area's cases: how many by kind and verdict, and those that matter.

    `busy`: why cases were not tried. `late`: how many attackers ran out of time.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    remarkable: list[tuple[Case, Outcome]] = field(default_factory=list)
    busy: Counter[str] = field(default_factory=Counter)
    late: int = 0

    def add(self, case: Case, outcome: Outcome) -> None:
        """Count one case."""
        self.verdicts[outcome.verdict] += 1
        self.kinds[f"{case.kind}: {outcome.verdict}"] += 1
        if outcome.verdict is Verdict.BUSY:
            self.busy[outcome.detail[:120]] += 1
        if outcome.verdict in UNEXPECTED or outcome.verdict is Verdict.LOST:
            self.remarkable.append((case, outcome))

    @property
    def tried(self) -> int:
        """The number of cases that were tried."""
        return sum(self.verdicts[verdict] for verdict in TRIED)


async def attacked(
    area: Area,
    target: Target,
    cases: Iterator[Case],
    begins: Callable[[Case], None],
    seconds: float,
) -> Tally:
    """Send all cases, or those that begin within `seconds`; `begins` is called with each before
    it is sent."""
    tally = Tally()
    deadline = time.monotonic() + seconds

    async def row() -> None:
        async with attacker(area, target) as attack:
            for case in cases:
                if time.monotonic() > deadline:
                    tally.late += 1
                    return
                begins(case)
                tally.add(case, await _tried(attack, case))

    async with asyncio.TaskGroup() as rows:
        for _ in range(area.concurrent):
            rows.create_task(row())
    return tally


async def _tried(attack: Attack, case: Case) -> Outcome:
    for again in range(_TRIES):
        outcome = await _once(attack, case)
        if outcome.verdict is not Verdict.BUSY:
            break
        await asyncio.sleep(_AGAIN_SECONDS * (1 + again))
    return outcome


async def _once(attack: Attack, case: Case) -> Outcome:
    try:
        async with asyncio.timeout(CASE_SECONDS):
            return await attack(case)
    except Hung as hung:
        return Outcome(Verdict.HANG, str(hung))
    except TimeoutError:
        return Outcome(Verdict.HANG, f"not over after {CASE_SECONDS:g} s")
    except AttackerFailed as error:
        return Outcome(Verdict.LOST, str(error))
    except Exception as error:  # a defect of the attacker must not look like one of the server
        return Outcome(Verdict.LOST, f"the attacker failed: {error!r}")
