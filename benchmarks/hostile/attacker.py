"""Sends inputs of any type to a graph, and counts the outcomes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.hostile import inputs
from benchmarks.hostile.attackers import ports, sockets
from benchmarks.hostile.attackers.inside import Liar
from benchmarks.hostile.attackers.resumes import Resumes
from benchmarks.hostile.attackers.wire import Hung, Target
from benchmarks.hostile.inputs import Case
from benchmarks.hostile.oracle import NOT_TRIED, UNEXPECTED, Held, Outcome, Verdict

# The retries of a case that is refused for the moment, each after a longer wait.
_TRIES, _AGAIN_SECONDS = 6, 0.5
# Longer than all waits of one case together.
CASE_SECONDS = 60.0
_MOST_SHOWN = 100
Attacking = Callable[[Target, float], Awaitable[Held]]


class Attacker:
    """Sends the inputs of one row of cases, which share its connections and tokens."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._resumes = Resumes(target)
        self._rpc: ports.Rpc | None = None
        self._liar: Liar | None = None

    async def send(self, sent: inputs.Input) -> Outcome:
        """Send an input, and judge the answer. Raises Hung or AttackerFailed."""
        target = self._target
        match sent:
            case inputs.Session():
                outcome = sockets.session(target, sent)
            case inputs.Stream():
                outcome = ports.stream(target, sent)
            case inputs.Post():
                outcome = ports.post(target, sent)
            case inputs.Leaving():
                outcome = ports.leave(target, sent)
            case inputs.Resumption():
                outcome = self._resumes.resume(sent)
            case inputs.Call():
                self._rpc = self._rpc or ports.Rpc(target)
                outcome = self._rpc.call(sent)
            case inputs.Lie():
                self._liar = self._liar or Liar(target)
                outcome = self._liar.send(sent)
        return await outcome

    async def close(self) -> None:
        """Close the shared connections."""
        if self._rpc is not None:
            await self._rpc.close()
        if self._liar is not None:
            await asyncio.to_thread(self._liar.close)


@dataclass
class Said:
    """The result of an area or attack: verdicts, unexpected cases, and whether the graph `held`.

    `lost` is the reason for an attack without a result, `slowest` as of `Held`. `cpu_seconds` are
    the attacker's.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    remarkable: list[tuple[Case, Outcome]] = field(default_factory=list)
    cases: int = 0
    held: bool | None = None
    detail: str = ""
    lost: str = ""
    slowest: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, case: Case, outcome: Outcome) -> None:
        """Count one case."""
        self.verdicts[outcome.verdict] += 1
        self.cases += outcome.verdict not in NOT_TRIED
        if outcome.verdict in UNEXPECTED | {Verdict.LOST} and len(self.remarkable) < _MOST_SHOWN:
            self.remarkable.append((case, outcome))


async def attacked(
    target: Target,
    made: Iterable[Case],
    concurrent: int,
    seconds: float,
    begins: Callable[[Case], None] = lambda case: None,
) -> Said:
    """Send all cases, `concurrent` at a time, or those that begin within `seconds`."""
    said, waiting, deadline = Said(), iter(made), time.monotonic() + seconds

    async def row() -> None:
        attacker = Attacker(target)
        try:
            for case in waiting:
                if time.monotonic() > deadline:
                    break
                begins(case)
                said.add(case, await _tried(attacker, case))
        finally:
            await attacker.close()

    await asyncio.gather(*(row() for _ in range(concurrent)))
    return said


async def _tried(attacker: Attacker, case: Case) -> Outcome:
    for again in range(_TRIES):
        outcome = await _once(attacker, case)
        if outcome.verdict is not Verdict.BUSY:
            break
        await asyncio.sleep(_AGAIN_SECONDS * (1 + again))
    if case.right and outcome.verdict not in (case.right, *NOT_TRIED):
        detail = f"{outcome.verdict} instead of {case.right}: {outcome.detail}"
        return Outcome(Verdict.FAILED, detail)
    return outcome


async def _once(attacker: Attacker, case: Case) -> Outcome:
    try:
        async with asyncio.timeout(CASE_SECONDS):
            return await attacker.send(case.input)
    except Hung as hung:
        return Outcome(Verdict.HANG, str(hung))
    except TimeoutError:
        return Outcome(Verdict.HANG, f"not over after {CASE_SECONDS:g} s")
    except Exception as error:  # a defect of the attacker is not one of the server
        return Outcome(Verdict.LOST, f"the attacker failed: {error!r}")


def judging(sent: Iterable[inputs.Input], *right: Verdict) -> Attacking:
    """An attack with inputs whose verdict must be one of these."""
    made = list(sent)

    async def attack(target: Target, scale: float) -> Held:
        chosen, attacker, wrong = made[: max(10, int(scale * len(made)))], Attacker(target), []
        try:
            for one in chosen:
                outcome = await _tried(attacker, Case("", 0, 0, one))
                if outcome.verdict not in right:
                    wrong.append(f"{outcome.verdict}: {outcome.detail} for {one!r:.100}")
        finally:
            await attacker.close()
        return Held(not wrong, "; ".join(wrong[:3]) or f"all {right[-1]}", len(chosen))

    return attack
