"""The admission of live sessions under overload, in simulated time.

    python -m benchmarks.overload.simulation [--quick] [--out FILE]

Clients of 10 to 60 s arrive at 0.5 to 10 times the capacity, on two kinds of machine
(`machines.py`) at several speeds; machines become slower, workers die, crowds arrive in the same
second, half of the sessions are silent. Admission, its limit and the measurement of chunks are the
processor's own classes. The capacity is the best fixed limit, searched by the same simulation, so
that goodput is relative to the best setting that an operator could have chosen.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from auricle.load.chunk_load import ChunkLoad
from auricle.processor.admission import AdaptiveLimit, Admission
from benchmarks.harness import Benchmark, Run, main
from benchmarks.overload.clients import (
    LENGTHS,
    TARGET_SECONDS,
    Client,
    Outcome,
    Server,
    arrivals,
)
from benchmarks.overload.machines import BatchCost, Batching, Machine, Sharing, Simulation

_MEAN_SECONDS = sum(LENGTHS) / 2
_MOST_SESSIONS = 10_000
_KEPT = 0.99
KINDS: dict[str, Callable[[Simulation], Machine]] = {
    "batching": lambda sim: Batching(sim, BatchCost()),
    "sharing": Sharing,
}
# Where the search for the best fixed limit begins, at speed 1.
_ABOUT = {"batching": 31, "sharing": 22}


@dataclass(frozen=True)
class Result:
    """The number of sessions that ended, and the share of them inside the SLO.

    `goodput` is the mean number of sessions inside the SLO, `refused` the clients that were
    refused at least once.
    """

    ended: int
    slo_share: float
    goodput: float
    refused: int


def server(machine: str, speed: float, seed: int, fixed: int | None = None) -> Server:
    """A server with a learnt limit, or a `fixed` one."""
    sim = Simulation(seed)
    built = KINDS[machine](sim)
    built.speed = speed

    def clock() -> float:
        return sim.now

    load = ChunkLoad(TARGET_SECONDS, clock)
    limit = AdaptiveLimit(TARGET_SECONDS) if fixed is None else None
    most = _MOST_SESSIONS if fixed is None else fixed
    return Server(sim, built, load, Admission(most, load, limit, clock))


def result(outcomes: list[Outcome], since: float, until: float) -> Result:
    """Return the result of the sessions that ended in that time."""
    ended = [o for o in outcomes if o.ended is not None and since <= o.ended <= until]
    kept = [o for o in ended if o.kept]
    return Result(
        len(ended),
        len(kept) / len(ended) if ended else 1.0,
        sum(o.seconds for o in kept) / (until - since),
        sum(o.refusals > 0 for o in outcomes if since <= o.asked <= until),
    )


def steady(
    machine: str,
    speed: float,
    offered: float,
    seconds: float,
    *,
    fixed: int | None = None,
    seed: int = 1,
    silent_share: float = 0.0,
) -> Result:
    """Simulate a constant offer of `offered` concurrent sessions on average."""
    one, outcomes = server(machine, speed, seed, fixed), list[Outcome]()
    rate = offered / _MEAN_SECONDS
    arrivals(one, lambda _: rate, seconds, outcomes, silent_share=silent_share)
    one.sim.run(seconds)
    return result(outcomes, 0.0, seconds)


def best_fixed(machine: str, speed: float, seconds: float) -> tuple[int, float]:
    """Return the fixed limit with the most goodput at 99% inside the SLO, and that goodput."""
    step = max(1, round(_ABOUT[machine] * speed / 20))
    # A slow machine carries less than its share: a chunk alone takes much of the target.
    first = 1 if speed < 1 else round(0.7 * _ABOUT[machine] * speed)
    limit, best = first, (first, 0.0)
    while True:
        found = steady(machine, speed, 3 * limit, seconds, fixed=limit)
        if found.slo_share < _KEPT:
            return best
        best = max(best, (limit, found.goodput), key=lambda one: one[1])
        limit += step


def slower(
    machine: str, speeds: tuple[float, float], offered: float, seconds: float, seed: int = 1
) -> Result:
    """Simulate a machine that changes its speed after half of the time.

    Only sessions that began and ended later count: earlier ones could not have been refused.
    """
    one, outcomes = server(machine, speeds[0], seed), list[Outcome]()
    arrivals(one, lambda _: offered / _MEAN_SECONDS, seconds, outcomes)

    def change() -> None:
        one.machine.speed = speeds[1]

    one.sim.at(seconds / 2, change)
    one.sim.run(seconds)
    after = [o for o in outcomes if (o.began or 0.0) > seconds / 2]
    return result(after, seconds / 2 + LENGTHS[1], seconds)


def crowd(machine: str, size: int, *, after: float = 0.0, before: float = 0.0) -> Result:
    """Simulate `size` clients in one second, `after` a time with `before` sessions offered."""
    one, outcomes = server(machine, 1.0, 1), list[Outcome]()
    arrivals(one, lambda _: max(1e-6, before / _MEAN_SECONDS), after, [])
    begin = after + (LENGTHS[1] if after else 0.0)

    def come() -> None:
        for _ in range(size):
            outcome = Outcome(one.sim.now, "", one.sim.dice.uniform(*LENGTHS))
            outcomes.append(outcome)
            one.sim.after(one.sim.dice.random(), Client(one, outcome, patience=60.0).ask)

    one.sim.at(begin, come)
    one.sim.run(begin + 180)
    return result(outcomes, begin, begin + 180)


def lost_worker(offered: float, seconds: float) -> Result:
    """Simulate the loss of one of two workers for 20 s; sessions that began later count."""
    one, outcomes = server("batching", 1.0, 1), list[Outcome]()
    machine = Batching(one.sim, BatchCost(), workers=2)
    one.machine = machine
    arrivals(one, lambda _: offered / _MEAN_SECONDS, seconds, outcomes)
    one.sim.at(seconds / 2, lambda: machine.lose(1, 20.0))
    one.sim.run(seconds)
    after = [o for o in outcomes if (o.began or 0.0) > seconds / 2 + 20.0]
    return result(after, seconds / 2 + 20.0, seconds)


def normal_after(machine: str, offered: float) -> float:
    """Return the seconds from the end of a flood to the first later client admitted at once."""
    flood = 120.0
    one, outcomes = server(machine, 1.0, 1), list[Outcome]()
    arrivals(one, lambda _: offered / _MEAN_SECONDS, flood, [], patience=10.0)

    def witness() -> None:
        outcome = Outcome(one.sim.now, "witness", LENGTHS[0])
        outcomes.append(outcome)
        Client(one, outcome, patience=0.0).ask()
        one.sim.after(0.5, witness)

    one.sim.at(flood, witness)
    one.sim.run(flood + LENGTHS[1])
    served = [o.asked for o in outcomes if not o.refusals]
    return min(served, default=float("inf")) - flood


def rows(*, quick: bool) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield every scenario by name, with its figures."""
    seconds = 300.0 if quick else 600.0
    for machine in KINDS:
        for speed in (1.0,) if quick else (0.5, 1.0, 4.0):
            limit, goodput = best_fixed(machine, speed, seconds)
            for times in (0.5, 2.0, 3.0, 10.0):
                found = steady(machine, speed, times * limit, seconds)
                bound = min(goodput, times * limit)
                yield (
                    f"{machine}, speed {speed:g}, best fixed {limit}, offered {times:g}x",
                    _figures(found) | {"goodput_share": found.goodput / bound if bound else 0.0},
                )
        about = _ABOUT[machine]
        found = steady(machine, 1.0, 4 * about, seconds, silent_share=0.5)
        yield f"{machine}, half of the sessions are silent", _figures(found)
        found = slower(machine, (1.0, 0.5), 3 * about, seconds)
        yield f"{machine}, half as fast from the middle on", _figures(found)
        found = slower(machine, (0.5, 1.0), 3 * about, seconds)
        yield f"{machine}, twice as fast from the middle on", _figures(found)
        yield f"{machine}, a crowd of 3x on a new server", _figures(crowd(machine, 3 * about))
        known = crowd(machine, 3 * about, after=120.0, before=2.0 * about)
        yield f"{machine}, a crowd of 3x on a server with a learnt limit", _figures(known)
        yield (
            f"{machine}, after a flood of 10x",
            {"normal_after_s": normal_after(machine, 10.0 * about)},
        )
    yield "batching, one of two workers lost for 20 s", _figures(lost_worker(200.0, seconds))


def _figures(found: Result) -> dict[str, float]:
    return {
        "sessions": found.ended,
        "slo_share": found.slo_share,
        "goodput": found.goodput,
        "refused": found.refused,
    }


def _simulation(run: Run) -> None:
    found = run.details
    for name, figures in rows(quick=run.size == "quick"):
        found[name] = figures
        print(f"{name}: " + ", ".join(f"{k} {v:.3g}" for k, v in figures.items()), flush=True)
    shares = [f["slo_share"] for f in found.values() if "slo_share" in f]
    print(f"inside the SLO: {statistics.mean(shares):.4f} on average, {min(shares):.4f} at worst")


BENCHMARK = Benchmark(
    description=__doc__, parts={"simulation": _simulation}, sizes=("quick",), out="optional"
)

if __name__ == "__main__":
    main(BENCHMARK)
