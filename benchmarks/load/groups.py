"""The groups of the suite, each with its figures and details."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from benchmarks.harness import Part, Run, note
from benchmarks.load import hop, recorded_rounds
from benchmarks.load.capacity import CapacitySearch, Condition, Search
from benchmarks.load.control import sessions as control
from benchmarks.load.metrics import partial_latencies
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.profiles import hottest, profiled
from benchmarks.load.scale import SCALES, Scale
from benchmarks.load.soak import drift
from benchmarks.load.spans import collecting, waterfall
from benchmarks.load.subjects import Running, Subject, running
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.load.usage import measured

# Where searches begin: close to earlier results, which saves steps without changing the result.
_FIRST = {
    "demo": {"ours": 28, "a": 9, "b": 9, "a-segmented": 14, "b-segmented": 12, "vllm-realtime": 1},
    "3x": {"ours": 16, "a": 5, "b": 5, "a-segmented": 8, "b-segmented": 8, "vllm-realtime": 1},
}
# A search measures how many sessions are carried, not how many are admitted.
_SEARCHED = ("--Processor.admission=fixed",)


def _scale(run: Run) -> Scale:
    return SCALES[run.size]


def _capacity(run: Run) -> int:
    """Return the capacity of auricle with the demo checkpoint; search it unless it is known."""
    if "capacity_ours_demo" not in run.figures:
        subject = Subject("ours", "demo")
        with running(subject, run.folder, *_SEARCHED) as server:
            _search(run, subject, server)
    return min(int(run.figures["capacity_ours_demo"]), _scale(run).most)


def _search(run: Run, subject: Subject, server: Running) -> Search:
    """Search a capacity and store its curve in the details."""
    scale = _scale(run)
    searching = CapacitySearch(subject, server, scale.live, repeats=scale.repeats, log=note)
    first = min(_FIRST[subject.model][subject.name], scale.most)
    found = searching.run(first, most=scale.most, resolution=scale.resolution)
    key = f"{subject.name}_{subject.model}".replace("-", "_")
    run.publish({f"capacity_{key}": found.capacity})
    run.details[f"curve_{key}"] = {"condition": str(scale.live), "points": found.plain()}
    run.save()
    return found


def capacity_demo(run: Run) -> None:
    """Measure the capacity of auricle and of the baselines with models/demo."""
    published, segmented = _capacities(run, "demo")
    run.publish({"capacity_ratio_demo": published, "capacity_ratio_demo_segmented": segmented})


def capacity_heavier(run: Run) -> None:
    """The same with the checkpoint with which the best baseline carries about five sessions."""
    published, segmented = _capacities(run, "3x")
    run.publish({"capacity_ratio_best": published, "capacity_ratio_best_segmented": segmented})


def _capacities(run: Run, model: str) -> tuple[float, float]:
    """Return our capacity ÷ the best baseline's: as published, and with our segments."""
    found: dict[str, int] = {}
    for name in ("ours", *_scale(run).baselines):
        subject = Subject(name, model)
        with running(subject, run.folder, *(_SEARCHED if name == "ours" else ())) as server:
            found[name] = _search(run, subject, server).capacity
    ours = found.pop("ours")
    published = [carried for name, carried in found.items() if not name.endswith("-segmented")]
    segmented = [carried for name, carried in found.items() if name.endswith("-segmented")]
    return ours / max(*published, 1), ours / max(*segmented, 1)


def half_and_twice(run: Run) -> None:
    """Measure auricle at half and at twice its capacity."""
    capacity = _capacity(run)
    with running(Subject("ours", "demo"), run.folder) as server:
        _half(run, server, max(1, capacity // 2))
        _overload(run, server, 2 * capacity)


def _trial(server: Running, load: Load, condition: Condition, seed: int) -> Trial:
    planner = Planner(SpeechStyle(condition.lengths), seed)
    session = Subject("ours", "demo").session
    return asyncio.run(run_trial(load, planner, session, server.target(condition.chunk_ms)))


def _half(run: Run, server: Running, sessions: int) -> None:
    with measured(server.process) as usage:
        load = Load(sessions, _scale(run).half_seconds, slo=_scale(run).live.slo)
        trial = _trial(server, load, _scale(run).live, seed=2)
    found = trial.figures()
    run.details["half"] = found | {
        "sessions_offered": sessions,
        "peak_mib": usage.peak_mib,
        **{
            f"cpu_per_audio_second_{name}": seconds / trial.open_seconds
            for name, seconds in usage.cpu_seconds.items()
            if seconds > 0.5
        },
    }
    run.publish({"stop_to_final_p95_half_ms": found["stop_to_final_p95_ms"]}, trial.invalid)


def _overload(run: Run, server: Running, sessions: int) -> None:
    load = Load(sessions, _scale(run).overload_seconds, slo=_scale(run).live.slo)
    trial = _trial(server, load, _scale(run).live, seed=3)
    found = trial.figures()
    run.details["overload"] = found | {"sessions_offered": sessions}
    run.publish(
        {
            "overload_running_slo_share": found["slo_share"],
            "overload_refused": found["sessions_refused"],
        },
        trial.invalid,
    )


def where_time_goes(run: Run) -> None:
    """Trace the steps of chunks at half of capacity."""
    live = _scale(run).live
    load = Load(max(1, _capacity(run) // 2), _scale(run).traced_seconds, slo=live.slo)
    invalid, found = _waterfall(run, "demo", load, live)
    run.details["waterfall_ms"] = {name: 1000 * value for name, value in found.items()}
    run.publish({"control_share_half": found["control"] / found["total"]}, invalid)


def where_time_goes_10x(run: Run) -> None:
    """Trace one session of a heavier checkpoint, to see which steps grow with the model."""
    slow = _scale(run).slow
    invalid, found = _waterfall(run, "10x", Load(1, slow.seconds, slo=slow.slo), slow)
    run.details["waterfall_10x_ms"] = {name: 1000 * value for name, value in found.items()}
    run.publish({"control_share_10x": found["control"] / found["total"]}, invalid)


def _waterfall(
    run: Run, model: str, load: Load, condition: Condition
) -> tuple[str, dict[str, float]]:
    """Return why the load was invalid, and the steps; the server runs only for this."""
    with collecting() as (endpoint, spans):
        tracing = f"--Common.otlp_endpoint={endpoint}"
        with running(Subject("ours", model), run.folder, tracing) as server:
            spans.clear()
            trial = _trial(server, load, condition, seed=4)
        latencies = [s for r in trial.records for s in partial_latencies(r)]
    return trial.invalid, waterfall(spans, latencies)


def profiles(run: Run) -> None:
    """Profile the CPU of the processes at half of capacity, which adds overhead."""
    sessions = max(1, _capacity(run) // 2)
    with running(Subject("ours", "demo"), run.folder) as server:
        live, seconds = _scale(run).live, _scale(run).profiled_seconds
        with profiled(server.process, seconds, run.folder) as files:
            load = Load(sessions, seconds + 3.0, slo=live.slo)
            _trial(server, load, live, seed=8)
        run.details["profiles"] = {name: hottest(file.read_text()) for name, file in files.items()}


def control_plane(run: Run) -> None:
    """Measure frontend and processor with simulated workers, one PD engine, and the hop."""
    scale = _scale(run)
    counts = scale.control_sessions
    rows = control.measure(counts, scale.control_seconds)
    run.details["control_plane"] = {str(count): row.figures for count, row in rows.items()}
    first = rows[counts[0]]
    run.publish({"control_sessions_per_core": first.figures["sessions_per_core"]}, first.invalid)
    for row in control.compared_with_echoes(first, counts[0], scale.control_seconds).values():
        run.publish(row.figures, row.invalid)
    module, option = "benchmarks.load.control.engine", f"--seconds={scale.engine_seconds}"
    output = subprocess.run(
        [sys.executable, "-m", module, option], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    run.publish(json.loads(output.strip().splitlines()[-1]))
    hops = asyncio.run(hop.reads("dram", scale.hop_reads, windows=(1,)))
    run.publish({"embedding_hop_p50_ms": hops[0]["p50_ms"]})


def recorded_files(run: Run) -> None:
    """Compare auricle with stock vLLM's server on the same recordings."""
    _recorded(run, "demo")


def recorded_files_10x(run: Run) -> None:
    """The same with a heavier checkpoint."""
    _recorded(run, "10x")


def _recorded(run: Run, model: str) -> None:
    found = recorded_rounds.compare(model, _scale(run), run.folder, note)
    for name, rows in found.items():
        run.details[f"recorded_{model}_{name}"] = [row.plain() for row in rows]
    medians = {name: rows[0] for name, rows in found.items()}
    invalid, ratios = recorded_rounds.ratios(model, medians)
    run.publish(ratios, invalid)


def soak(run: Run) -> None:
    """Run for an hour at 70% of capacity."""
    sessions = max(1, int(0.7 * _capacity(run)))
    with running(Subject("ours", "demo"), run.folder) as server, measured(server.process) as usage:
        load = Load(sessions, _scale(run).soak_seconds, slo=_scale(run).live.slo)
        trial = _trial(server, load, _scale(run).live, seed=7)
    after = _scale(run).soak_warm_up_seconds
    found = drift(usage.own_memory, trial.records, after)
    names = usage.own[-1][1]
    run.details["soak"] = trial.figures() | {
        "sessions_offered": sessions,
        **{
            f"slope_{n}": drift(usage.own_memory_of(n), trial.records, after).mb_per_min
            for n in names
        },
    }
    run.publish(
        {"soak_slope_mb_per_min": found.mb_per_min, "soak_lag_growth": found.lag_growth},
        trial.invalid,
    )


GROUPS: dict[str, Part] = {
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
# Without a figure, or too long for a quick run of 20 minutes. It searches auricle's own capacity
# only, which other groups need.
FULL_ONLY = frozenset({"soak", "profiles", "demo", "heavier"})
