"""The groups of the suite: each measures some figures and what belongs to them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load import recorded
from benchmarks.load.capacity import CapacitySearch, Condition, Search
from benchmarks.load.control import sessions as control
from benchmarks.load.metrics import partial_latencies
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.profiles import hottest, profiled
from benchmarks.load.soak import drift
from benchmarks.load.spans import collecting, waterfall
from benchmarks.load.subjects import Running, Subject, running
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.load.usage import measured

# As the issue of the day has it: live speech of any length at the default cadence. A
# baseline with the larger checkpoint carries no two such sessions on two cores; for it
# chunks are longer and sessions shorter, for all alike.
LIVE = Condition(640, (5.0, 60.0), seconds=50.0)
SHORT = Condition(4000, (1.5, 3.0), seconds=60.0)
# One session of the larger checkpoint, with partials: where the time goes, not how much fits.
_SLOW = Condition(2000, (5.0, 20.0), seconds=60.0)
# Where searches begin: near what was found before, which saves steps and decides nothing.
_FIRST = {
    "demo": {"ours": 28, "a": 9, "b": 9, "vllm-realtime": 1},
    "60m": {"ours": 4, "a": 2, "b": 2, "a-segmented": 2, "b-segmented": 2},
}
# Sessions of a search begin evenly: no limit on how fast. Those by load stay.
_SEARCHED = ("--Processor.assured_sessions=1000",)
# By itself a chunk of the larger checkpoint takes nearly 300 ms on one of these cores.
_SEARCHED_60M = (*_SEARCHED, "--Processor.target_chunk_ms=600")
# A server for recordings: no part need be held back for live sessions.
_RECORDINGS = (
    "--Frontend.recording_parts_in_flight=16",
    "--PdWorker.max_requests=32",
    "--PdWorker.landing_slots=256",
    "--EncodeWorker.slots=256",
)

# Random weights never end an answer. Ours stops at 8 tokens per second of audio
# (`max_tokens_per_second`); stock vLLM, whose pieces have 30 s, at as many.
_ANSWER_TOKENS = 240


@dataclass
class Suite:
    """What a group needs, and where it puts what it found; `save` keeps it."""

    quick: bool
    work: Path
    told: Callable[[str], None]
    save: Callable[[], None]
    figures: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Of ours with the demo checkpoint; a figure of before if it was not measured now."""
        return int(self.figures.get("capacity_ours_demo", _FIRST["demo"]["ours"]))

    def search(self, subject: Subject, server: Running, condition: Condition) -> Search:
        """Capacity; the curve goes to the details."""
        searching = CapacitySearch(
            subject, server, condition, repeats=1 if self.quick else 3, told=self.told
        )
        resolution = 0.2 if self.quick else 0.05
        found = searching.run(_FIRST[subject.model][subject.name], resolution=resolution)
        key = f"{subject.name}_{subject.model}".replace("-", "_")
        self.figures[f"capacity_{key}"] = found.capacity
        self.details[f"curve_{key}"] = {"condition": str(condition), "points": found.plain()}
        self.save()
        return found


def _best(suite: Suite, names: list[str], model: str) -> float:
    found = [suite.figures[f"capacity_{name}_{model}".replace("-", "_")] for name in names]
    return max(*found, 1.0)


def capacity_demo(suite: Suite) -> None:
    """Ours and the baselines as published."""
    ours = Subject("ours", "demo")
    with running(ours, suite.work, *_SEARCHED) as server:
        capacity = suite.search(ours, server, LIVE).capacity
    baselines = ["a", "vllm-realtime"] if suite.quick else ["a", "b", "vllm-realtime"]
    for name in baselines:
        subject = Subject(name, "demo")
        with running(subject, suite.work) as server:
            suite.search(subject, server, LIVE)
    suite.figures["capacity_ratio_demo"] = capacity / _best(suite, baselines, "demo")


def half_and_twice(suite: Suite) -> None:
    """Ours at half of capacity and at twice."""
    with running(Subject("ours", "demo"), suite.work) as server:
        _half(suite, server, max(1, suite.capacity // 2))
        _overload(suite, server, 2 * suite.capacity)


def _trial(server: Running, load: Load, condition: Condition, seed: int) -> Trial:
    planner = Planner(SpeechStyle(condition.lengths), seed)
    session = Subject("ours", "demo").session
    return asyncio.run(run_trial(load, planner, session, server.target(condition.chunk_ms)))


def _half(suite: Suite, server: Running, sessions: int) -> None:
    with measured(server.process) as usage:
        load = Load(sessions, 40.0 if suite.quick else 180.0, slo=LIVE.slo)
        trial = _trial(server, load, LIVE, seed=2)
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
    suite.figures["stop_to_final_p95_half_ms"] = found["stop_to_final_p95_ms"]


def _overload(suite: Suite, server: Running, sessions: int) -> None:
    load = Load(sessions, 50.0 if suite.quick else 180.0, slo=LIVE.slo)
    trial = _trial(server, load, LIVE, seed=3)
    found = trial.figures()
    suite.details["overload"] = found | {"sessions_offered": sessions}
    suite.figures["overload_running_slo_share"] = found["slo_share"]
    suite.figures["overload_refused"] = found["sessions_refused"]


def capacity_60m(suite: Suite) -> None:
    """The larger checkpoint: ours, the baselines as published, and with our segments."""
    names = ["b", "b-segmented"] if suite.quick else ["a", "b", "a-segmented", "b-segmented"]
    for name in ("ours", *names):
        subject = Subject(name, "60m")
        overrides = _SEARCHED_60M if name == "ours" else ()
        with running(subject, suite.work, *overrides) as server:
            suite.search(subject, server, SHORT)
    ours = suite.figures["capacity_ours_60m"]
    published = [name for name in names if "-" not in name]
    segmented = [name for name in names if "-" in name]
    suite.figures["capacity_ratio_60m"] = ours / _best(suite, published, "60m")
    suite.figures["capacity_ratio_segmented"] = ours / _best(suite, segmented, "60m")


def where_time_goes(suite: Suite) -> None:
    """Traces at half of capacity."""
    load = Load(max(1, suite.capacity // 2), 30.0, slo=LIVE.slo)
    found = _waterfall(suite, "demo", load, LIVE)
    suite.details["waterfall_ms"] = {name: 1000 * value for name, value in found.items()}
    suite.figures["control_share_half"] = found["control"] / found["total"]


def where_time_goes_60m(suite: Suite) -> None:
    """The same for one session of the larger checkpoint: does the path grow with the model?"""
    found = _waterfall(suite, "60m", Load(1, _SLOW.seconds, slo=_SLOW.slo), _SLOW)
    suite.details["waterfall_60m_ms"] = {name: 1000 * value for name, value in found.items()}
    suite.figures["control_share_60m"] = found["control"] / found["total"]


def _waterfall(suite: Suite, model: str, load: Load, condition: Condition) -> dict[str, float]:
    """Of a server of its own, as tracing is not free."""
    with collecting() as (endpoint, spans):
        tracing = f"--Common.otlp_endpoint={endpoint}"
        with running(Subject("ours", model), suite.work, tracing) as server:
            spans.clear()
            trial = _trial(server, load, condition, seed=4)
        latencies = [s for r in trial.records for s in partial_latencies(r)]
    return waterfall(spans, latencies)


def profiles(suite: Suite) -> None:
    """Where the processes' CPU goes at half of capacity; being watched is not free either."""
    with running(Subject("ours", "demo"), suite.work) as server:
        with profiled(server.process, 25, suite.work) as files:
            _trial(server, Load(max(1, suite.capacity // 2), 28.0, slo=LIVE.slo), LIVE, seed=8)
        suite.details["profiles"] = {
            name: hottest(file.read_text()) for name, file in files.items()
        }


def control_plane(suite: Suite) -> None:
    """Frontend and processor between workers that only wait; one PD engine; the hop."""
    counts = [50] if suite.quick else [50, 25, 75, 100]
    rows = control.measure(counts, 25.0)
    suite.details["control_plane"] = {str(count): row for count, row in rows.items()}
    suite.figures["control_sessions_per_core"] = rows[50]["sessions_per_core"]
    for module in ("benchmarks.load.control.engine", "benchmarks.load.hop"):
        output = subprocess.run(
            [sys.executable, "-m", module], check=True, capture_output=True, text=True
        ).stdout
        suite.figures |= json.loads(output.strip().splitlines()[-1])


def recorded_files(suite: Suite) -> None:
    """Ours beside stock vLLM's server, on the same recordings."""
    _recorded(suite, "demo", seconds=600.0)


def recorded_files_60m(suite: Suite) -> None:
    """The same with the larger checkpoint: in quick runs of minutes instead of ten."""
    _recorded(suite, "60m", seconds=90.0 if suite.quick else 600.0)


def _recorded(suite: Suite, model: str, seconds: float) -> None:
    long = recorded.recordings(8 if suite.quick else 16, seconds, seed=5)
    short = recorded.recordings(64, 8.0, seed=6)
    found: dict[str, list[recorded.Rtfx]] = {}
    for name in ("ours", "vllm-openai"):
        overrides = _RECORDINGS if name == "ours" else ()
        with running(Subject(name, model), suite.work, *overrides) as server:
            bound = _ANSWER_TOKENS if (name, model) == ("vllm-openai", "60m") else None
            found[name] = [asyncio.run(recorded.rtfx(server, long, 8, bound))]
            for concurrency in () if suite.quick else (1, 8, 32, 128):
                result = asyncio.run(recorded.rtfx(server, short, concurrency, bound))
                found[name].append(result)
        suite.details[f"recorded_{model}_{name}"] = [r.plain() for r in found[name]]
        suite.told(f"{name} {model}: {found[name][0].rtfx:.1f} x real time")
    ours, theirs = (found[name][0].rtfx for name in ("ours", "vllm-openai"))
    suite.figures[f"rtfx_ratio_long_{model}"] = ours / theirs


def soak(suite: Suite) -> None:
    """Half an hour at 70% of capacity."""
    sessions = max(1, int(0.7 * suite.capacity))
    with running(Subject("ours", "demo"), suite.work) as server, measured(server.process) as usage:
        load = Load(sessions, 1800.0, slo=LIVE.slo)
        trial = _trial(server, load, LIVE, seed=7)
    found = drift(usage.memory, trial.records)
    names = usage.samples[-1][1]
    suite.details["soak"] = trial.figures() | {
        "sessions_offered": sessions,
        **{f"slope_{n}": drift(usage.memory_of(n), trial.records).mb_per_min for n in names},
    }
    suite.figures["soak_slope_mb_per_min"] = found.mb_per_min
    suite.figures["soak_lag_growth"] = found.lag_growth


GROUPS: dict[str, Callable[[Suite], None]] = {
    "control": control_plane,
    "demo": capacity_demo,
    "half": half_and_twice,
    "time": where_time_goes,
    "profiles": profiles,
    "60m": capacity_60m,
    "time-60m": where_time_goes_60m,
    "recorded": recorded_files,
    "recorded-60m": recorded_files_60m,
    "soak": soak,
}
# On two cores the larger checkpoint alone takes longer than a quick run may.
NOT_QUICK = frozenset({"soak", "profiles", "60m", "time-60m", "recorded-60m"})
