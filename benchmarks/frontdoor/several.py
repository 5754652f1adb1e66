"""Sessions that two frontends carry, divided by the sessions of one.

    python -m benchmarks.frontdoor.several --out FILE [--quick]

Each frontend is pinned to a core of its own. The processor is real, the workers are simulated.
Sessions send 20 ms packets, and belong to a key with a limit of sessions and an audio rate, which
hold over all frontends. A frontend carries as many sessions as its CPU seconds per session allow in
a second of its core, so load generator and processor may run on the same cores: their CPU is not
counted, but published. One frontend and two take turns, each with as many sessions per frontend.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from auricle.frontend.transport.access.keys import new_key
from benchmarks.harness import Benchmark, LeftOut, Run, main
from benchmarks.load.control.sessions import frontends
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.load.usage import measured

_STYLE = SpeechStyle((4.0, 8.0))  # short: a frontend asks the others when a session begins
_PACKET_MS = 20
_SHARED = {"max_sessions": 1000, "audio_minutes_per_minute": 10_000.0}


@dataclass(frozen=True)
class Cost:
    """CPU seconds per session and second of the frontends, the processor and the generator."""

    frontend: float
    processor: float
    generator: float
    sessions: float  # open at a time, on average
    started: int
    lateness: str


def measure(count: int, sessions: int, seconds: float) -> Cost:
    """Measure `count` frontends, each with `sessions` at a time."""
    secret, entry = new_key("acme")
    with tempfile.TemporaryDirectory() as directory:
        keys = Path(directory) / "keys.yaml"
        fields = entry.model_dump(exclude_defaults=True) | _SHARED
        keys.write_text(yaml.safe_dump({"keys": [fields]}))
        options = (f"--Frontend.api_keys_file={keys}", "--Frontend.max_handshakes_per_key=0")
        with frontends(count, frontend=options) as (urls, processes):
            pinned = [process for name, process in processes.items() if "Frontend" in name]
            for process, core in zip(pinned, _cores(), strict=False):
                process.cpu_affinity([core])
            targets = [Target(url, "demo", key=secret) for url in urls]
            asyncio.run(_offered(targets, 2, 8.0))
            with ExitStack() as stack:
                usages = {
                    name: stack.enter_context(measured(process, memory_every=1e9))
                    for name, process in processes.items()
                }
                own = psutil.Process().cpu_times()
                trials = asyncio.run(_offered(targets, sessions, seconds))
                spent = psutil.Process().cpu_times()
    opened = sum(trial.open_seconds for trial in trials)
    cpu = {name: usage.total_cpu_seconds for name, usage in usages.items()}
    generator = spent.user + spent.system - own.user - own.system
    return Cost(
        frontend=(sum(cpu.values()) - cpu["Processor"]) / opened,
        processor=cpu["Processor"] / opened,
        generator=generator / opened,
        sessions=opened / trials[0].seconds,
        started=sum(len(trial.offered) for trial in trials),
        lateness=next((trial.lateness for trial in trials if trial.lateness), ""),
    )


async def _offered(targets: Sequence[Target], sessions: int, seconds: float) -> list[Trial]:
    load, session = Load(sessions, seconds, _PACKET_MS, Slo()), protocol("stream")
    planners = [Planner(_STYLE, number) for number in range(len(targets))]
    return await asyncio.gather(
        *(
            run_trial(load, planner, session, target)
            for planner, target in zip(planners, targets, strict=True)
        )
    )


def _cores() -> list[int]:
    return sorted(psutil.Process().cpu_affinity())


def _several(run: Run) -> dict[str, float]:
    if len(_cores()) < 2:
        raise LeftOut("two frontends need two cores")
    arguments = run.arguments
    turns = arguments.turns or run.of(3, 1)
    seconds = arguments.seconds or run.of(30, 12, 6)
    ratios, rows = [], []
    for turn in range(turns):
        one = measure(1, arguments.sessions, seconds)
        two = measure(2, arguments.sessions, seconds)
        ratios.append(2 * one.frontend / two.frontend)
        rows.append((one, two))
        run.details[f"turn_{turn}"] = {"one": vars(one), "two": vars(two)}
    late = next((c.lateness for row in rows for c in row if c.lateness), "")
    if late:
        run.details["lateness"] = late
    found = {"frontends_ratio": statistics.median(ratios), "frontends_ratio_least": min(ratios)}
    for name, place in (("one", 0), ("two", 1)):
        costs = [row[place] for row in rows]
        found |= {
            f"sessions_per_frontend_core_{name}": 1 / statistics.median(c.frontend for c in costs),
            f"processor_cores_{name}": statistics.median(c.processor * c.sessions for c in costs),
            f"generator_cores_{name}": statistics.median(c.generator * c.sessions for c in costs),
        }
    return found


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", type=int, default=12, help="at a time, of each frontend")
    parser.add_argument("--seconds", type=float, help="of each measurement")
    parser.add_argument("--turns", type=int, help="in which one frontend and two are measured")


BENCHMARK = Benchmark(description=__doc__, parts={"several": _several}, arguments=_arguments)

if __name__ == "__main__":
    main(BENCHMARK)
