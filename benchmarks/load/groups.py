"""The groups of the suite, each of which measures some figures and their details."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.before import BASE
from benchmarks.load import recorded_rounds
from benchmarks.load.capacity import CapacitySearch, Condition, Search
from benchmarks.load.control import engine_pairs
from benchmarks.load.control import sessions as control
from benchmarks.load.metrics import partial_latencies
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.profiles import hottest, profiled
from benchmarks.load.scale import Scale
from benchmarks.load.soak import drift
from benchmarks.load.spans import collecting, waterfall
from benchmarks.load.subjects import Running, Subject, running
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.load.usage import measured

# Where searches begin: near what was found before, which saves steps and decides nothing.
_FIRST = {
    "demo": {"ours": 28, "a": 9, "b": 9, "a-segmented": 14, "b-segmented": 12, "vllm-realtime": 1},
    "3x": {"ours": 16, "a": 5, "b": 5, "a-segmented": 8, "b-segmented": 8, "vllm-realtime": 1},
}
# A search asks how many sessions are carried, not how many are let in.
_SEARCHED = ("--Processor.admission=fixed",)


@dataclass
class Suite:
    """The inputs and results of groups; `save` stores the results.

    `invalid` gives the reason why a figure is missing in `figures`.
    """

    scale: Scale
    work: Path
    told: Callable[[str], None]
    save: Callable[[], None]
    figures: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    invalid: dict[str, str] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """The capacity of auricle with the demo checkpoint, from this run or an earlier one."""
        known = int(self.figures.get("capacity_ours_demo", _FIRST["demo"]["ours"]))
        return min(known, self.scale.most)

    def publish(self, invalid: str, found: dict[str, float]) -> None:
        """Store the figures of a load, or the reason why it was `invalid`."""
        for name, value in found.items():
            self.figures.pop(name, None)
            self.invalid.pop(name, None)
            if invalid:
                self.invalid[name] = invalid
                self.told(f"{name} is invalid: {invalid}")
            else:
                self.figures[name] = value

    def search(self, subject: Subject, server: Running, condition: Condition) -> Search:
        """Search a capacity and store its curve in the details."""
        searching = CapacitySearch(
            subject, server, condition, repeats=self.scale.repeats, told=self.told
        )
        first = min(_FIRST[subject.model][subject.name], self.scale.most)
        found = searching.run(first, most=self.scale.most, resolution=self.scale.resolution)
        key = f"{subject.name}_{subject.model}".replace("-", "_")
        self.figures[f"capacity_{key}"] = found.capacity
        self.details[f"curve_{key}"] = {"condition": str(condition), "points": found.plain()}
        self.save()
        return found


def capacity_demo(suite: Suite) -> None:
    """Measure the capacity of auricle and of the baselines with models/demo."""
    published, segmented = _capacities(suite, "demo")
    suite.figures |= {
        "capacity_ratio_demo": published,
        "capacity_ratio_demo_segmented": segmented,
    }


def capacity_heavier(suite: Suite) -> None:
    """The same with the checkpoint of which the best baseline carries about five sessions."""
    published, segmented = _capacities(suite, "3x")
    suite.figures |= {
        "capacity_ratio_best": published,
        "capacity_ratio_best_segmented": segmented,
    }


def _capacities(suite: Suite, model: str) -> tuple[float, float]:
    """Return ours ÷ that of the best baseline as published, and with our segments."""
    found: dict[str, int] = {}
    for name in ("ours", *suite.scale.baselines):
        subject = Subject(name, model)
        with running(subject, suite.work, *(_SEARCHED if name == "ours" else ())) as server:
            found[name] = suite.search(subject, server, suite.scale.live).capacity
    ours = found.pop("ours")
    published = [carried for name, carried in found.items() if not name.endswith("-segmented")]
    segmented = [carried for name, carried in found.items() if name.endswith("-segmented")]
    return ours / max(*published, 1), ours / max(*segmented, 1)


def half_and_twice(suite: Suite) -> None:
    """Measure auricle at half and at twice its capacity."""
    with running(Subject("ours", "demo"), suite.work) as server:
        _half(suite, server, max(1, suite.capacity // 2))
        _overload(suite, server, 2 * suite.capacity)


def _trial(server: Running, load: Load, condition: Condition, seed: int) -> Trial:
    planner = Planner(SpeechStyle(condition.lengths), seed)
    session = Subject("ours", "demo").session
    return asyncio.run(run_trial(load, planner, session, server.target(condition.chunk_ms)))


def _half(suite: Suite, server: Running, sessions: int) -> None:
    with measured(server.process) as usage:
        load = Load(sessions, suite.scale.half_seconds, slo=suite.scale.live.slo)
        trial = _trial(server, load, suite.scale.live, seed=2)
    found = trial.figures()
    suite.details["half"] = found | {
        "sessions_offered": sessions,
        "peak_mib": usage.peak_mib,
        **{
            f"cpu_per_audio_second_{name}": seconds / trial.open_seconds
            for name, seconds in usage.cpu_seconds.items()
            if seconds > 0.5
        },
    }
    suite.publish(trial.invalid, {"stop_to_final_p95_half_ms": found["stop_to_final_p95_ms"]})


def _overload(suite: Suite, server: Running, sessions: int) -> None:
    load = Load(sessions, suite.scale.overload_seconds, slo=suite.scale.live.slo)
    trial = _trial(server, load, suite.scale.live, seed=3)
    found = trial.figures()
    suite.details["overload"] = found | {"sessions_offered": sessions}
    suite.publish(
        trial.invalid,
        {
            "overload_running_slo_share": found["slo_share"],
            "overload_refused": found["sessions_refused"],
        },
    )


def where_time_goes(suite: Suite) -> None:
    """Trace the steps of chunks at half of capacity."""
    live = suite.scale.live
    load = Load(max(1, suite.capacity // 2), suite.scale.traced_seconds, slo=live.slo)
    invalid, found = _waterfall(suite, "demo", load, live)
    suite.details["waterfall_ms"] = {name: 1000 * value for name, value in found.items()}
    suite.publish(invalid, {"control_share_half": found["control"] / found["total"]})


def where_time_goes_10x(suite: Suite) -> None:
    """Trace one session of a heavier checkpoint, to see which steps grow with the model."""
    slow = suite.scale.slow
    invalid, found = _waterfall(suite, "10x", Load(1, slow.seconds, slo=slow.slo), slow)
    suite.details["waterfall_10x_ms"] = {name: 1000 * value for name, value in found.items()}
    suite.publish(invalid, {"control_share_10x": found["control"] / found["total"]})


def _waterfall(
    suite: Suite, model: str, load: Load, condition: Condition
) -> tuple[str, dict[str, float]]:
    """Return why the load was invalid, and the steps; the server runs only for this."""
    with collecting() as (endpoint, spans):
        tracing = f"--Common.otlp_endpoint={endpoint}"
        with running(Subject("ours", model), suite.work, tracing) as server:
            spans.clear()
            trial = _trial(server, load, condition, seed=4)
        latencies = [s for r in trial.records for s in partial_latencies(r)]
    return trial.invalid, waterfall(spans, latencies)


def profiles(suite: Suite) -> None:
    """Profile the CPU of the processes at half of capacity, which adds overhead."""
    with running(Subject("ours", "demo"), suite.work) as server:
        live, seconds = suite.scale.live, suite.scale.profiled_seconds
        with profiled(server.process, seconds, suite.work) as files:
            load = Load(max(1, suite.capacity // 2), seconds + 3.0, slo=live.slo)
            _trial(server, load, live, seed=8)
        suite.details["profiles"] = {
            name: hottest(file.read_text()) for name, file in files.items()
        }


def control_plane(suite: Suite) -> None:
    """Measure frontend and processor with simulated workers, one PD engine, and the hop."""
    counts = suite.scale.control_sessions
    rows = control.measure(counts, suite.scale.control_seconds)
    suite.details["control_plane"] = {str(count): row.figures for count, row in rows.items()}
    first = rows[counts[0]]
    per_core = first.figures["sessions_per_core"]
    suite.publish(first.invalid, {"control_sessions_per_core": per_core})
    beside = control.beside_an_echo(first, counts[0], suite.scale.control_seconds)
    for row in beside.values():
        suite.publish(row.invalid, row.figures)
    for module, option in (
        ("benchmarks.load.control.engine", f"--seconds={suite.scale.engine_seconds}"),
        ("benchmarks.load.hop", f"--reads={suite.scale.hop_reads}"),
    ):
        output = subprocess.run(
            [sys.executable, "-m", module, option], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        suite.figures |= json.loads(output.strip().splitlines()[-1])
    pairs, seconds = suite.scale.engine_pairs, suite.scale.engine_seconds
    suite.publish(*engine_pairs.since(BASE, pairs, seconds))


def recorded_files(suite: Suite) -> None:
    """Compare auricle with stock vLLM's server on the same recordings."""
    _recorded(suite, "demo")


def recorded_files_10x(suite: Suite) -> None:
    """The same with a heavier checkpoint."""
    _recorded(suite, "10x")


def _recorded(suite: Suite, model: str) -> None:
    found = recorded_rounds.compare(model, suite.scale, suite.work, suite.told)
    for name, rows in found.items():
        suite.details[f"recorded_{model}_{name}"] = [row.plain() for row in rows]
    suite.publish(*recorded_rounds.ratios(model, {name: rows[0] for name, rows in found.items()}))


def soak(suite: Suite) -> None:
    """Run for an hour at 70% of capacity."""
    sessions = max(1, int(0.7 * suite.capacity))
    with running(Subject("ours", "demo"), suite.work) as server, measured(server.process) as usage:
        load = Load(sessions, suite.scale.soak_seconds, slo=suite.scale.live.slo)
        trial = _trial(server, load, suite.scale.live, seed=7)
    after = suite.scale.soak_warm_up_seconds
    found = drift(usage.own_memory, trial.records, after)
    names = usage.own[-1][1]
    suite.details["soak"] = trial.figures() | {
        "sessions_offered": sessions,
        **{
            f"slope_{n}": drift(usage.own_memory_of(n), trial.records, after).mb_per_min
            for n in names
        },
    }
    suite.publish(
        trial.invalid,
        {"soak_slope_mb_per_min": found.mb_per_min, "soak_lag_growth": found.lag_growth},
    )


GROUPS: dict[str, Callable[[Suite], None]] = {
    "control": control_plane,
    "demo": capacity_demo,
    "half": half_and_twice,
    "time": where_time_goes,
    "profiles": profiles,
    "heavier": capacity_heavier,
    "time-10x": where_time_goes_10x,
    "recorded": recorded_files,
    "recorded-10x": recorded_files_10x,
    "soak": soak,
}
# Longer than all of a quick run may take, or no figure.
NOT_QUICK = frozenset({"soak", "profiles"})
