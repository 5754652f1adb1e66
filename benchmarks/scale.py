"""How the cost of discovery, load reports, placement and planning grows with the workers.

    python -m benchmarks.scale --out FILE [--quick] [--only PART …]

`processes` runs etcd, NATS, a frontend, a processor and a planner, and 10, 100 and 300 workers
without an engine, each a process of its own. It counts the CPU time and the messages of each
without sessions, and then the processor's CPU time for sessions. A growth exponent is the slope
between the two largest numbers of workers on logarithmic axes: 1 is linear. The cost with two
workers is subtracted before, unless it is most of the cost. `decisions` measures the functions
whose work depends on the number of workers, up to 1,000 of them, without processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from auricle.load.capacity_profile import read_profile
from auricle.load.load_board import LoadBoard
from auricle.load.pools import REQUIRED_POOLS
from auricle.load.report_cache import WorkerLoads
from auricle.load.reports import PoolObservation, WorkerLoad
from auricle_testing.scraping import scraped, values
from auricle_testing.server import free_port
from auricle_testing.services import BIN, Etcd, running
from benchmarks.baselines.client import ROOT, end
from benchmarks.harness import Benchmark, Run, main
from benchmarks.load.control.sessions import DECODE_MS, ENCODE_MS
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.trial import Load, run_trial

_PROFILE = Path("configs/profiles/h100-0.6b.assumed.json")
_POOLS = {"EncodeWorker": ENCODE_MS, "PdWorker": DECODE_MS}
_READY_SECONDS = 300.0
_STEP_SECONDS, _DEFAULT_STEP_SECONDS = 5.0, 30.0  # of the planner
_REPORT_SECONDS = 2.0  # the default
_SESSIONS, _SHORTEST_TRIAL_SECONDS = 4, 20.0
_STYLE = SpeechStyle((4.0, 8.0))


@dataclass
class Deployment:
    """The processes whose CPU time is counted, by name, and the stand-ins."""

    etcd: Etcd
    nats_monitor: str
    frontend: str
    planner: str
    common: Sequence[str]
    start: Callable[..., psutil.Process]
    processes: dict[str, psutil.Process] = field(default_factory=dict)
    forking: list[psutil.Process] = field(default_factory=list)
    workers: int = 0

    def grow(self, workers: int) -> float:
        """Grow to this number of workers; return the seconds until all report their load."""
        began, more = time.monotonic(), (workers - self.workers) // len(_POOLS)
        for component, milliseconds in _POOLS.items():
            self.forking.append(
                self.start(
                    *("-m", "benchmarks.load.control.workers", component, f"--count={more}"),
                    *(f"--milliseconds={milliseconds}", *self.common),
                )
            )
        self.workers = workers
        _until(lambda: self._reporting() >= workers, f"{workers} workers do not report")
        return time.monotonic() - began

    def _reporting(self) -> float:
        return sum(values(scraped(self.planner, 10.0), "auricle_planner_replicas_ready"))

    def cpu(self) -> Counter[str]:
        """Return the CPU seconds of each process, and of all stand-ins together."""
        spent: Counter[str] = Counter()
        for name, process in self.processes.items():
            spent[name] = _cpu(process)  # type: ignore[assignment]
        for process in self.forking:
            spent["workers"] += sum(map(_cpu, process.children()))  # type: ignore[assignment]
        return spent

    def messages(self) -> Counter[str]:
        """Return the messages and bytes that etcd and NATS have passed on."""
        nats = httpx.get(f"{self.nats_monitor}/varz", timeout=10).json()
        etcd, received = scraped(self.etcd.url, 10.0), "grpc_server_msg_received_total"
        return Counter(
            nats_in=nats["in_msgs"],
            nats_out=nats["out_msgs"],
            nats_bytes=nats["out_bytes"],
            etcd_renewals=int(sum(values(etcd, received, grpc_method="LeaseKeepAlive"))),
            etcd_requests=int(sum(values(etcd, received))),
            etcd_bytes=int(sum(values(etcd, "etcd_network_client_grpc_sent_bytes_total"))),
        )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _until(condition: Callable[[], bool], why: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(why)
        time.sleep(0.2)


@contextlib.contextmanager
def deployed(log: Path) -> Iterator[Deployment]:
    """Run etcd, NATS, a frontend, a processor and a planner, without workers.

    `log` gets the output of all processes.
    """
    nats, monitor, frontend, planner = (free_port() for _ in range(4))
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        folder = Path(directory)
        secret = folder / "secret"
        secret.write_text("s" * 64)
        secret.chmod(0o600)
        own = psutil.Process()
        health = f"http://127.0.0.1:{monitor}"
        stack.enter_context(
            running(
                *(str(BIN / "nats-server"), "-a", "127.0.0.1", "-p", str(nats)),
                *("-m", str(monitor), "-js", "-sd", str(folder / "nats")),
                health=f"{health}/healthz",
            )
        )
        etcd = Etcd(folder)
        etcd.start()
        stack.callback(etcd.stop)
        servers = {process.name(): process for process in own.children()}
        environment = os.environ | {"OMP_NUM_THREADS": "1", "DYN_LOG": "warn"}
        output = stack.enter_context(log.open("w"))

        def start(*command: str) -> psutil.Process:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env=environment, stdout=output, stderr=output
            )
            stack.callback(end, process)
            return psutil.Process(process.pid)

        common = (
            *("-f", "configs/demo.yaml", "--Common.discovery=etcd", "--Common.event_plane=nats"),
            *(f"--Common.etcd_endpoints={etcd.url}", f"--Common.secret_file={secret}"),
            *(f"--Common.nats_server=nats://127.0.0.1:{nats}", "--Common.internal_host=127.0.0.1"),
            f"--Common.load_report_seconds={_REPORT_SECONDS}",
        )
        own_settings = {
            "Processor": ("--Processor.max_sessions=1000", "--Processor.admission=fixed"),
            "Frontend": (f"--Frontend.port={frontend}",),
            "Planner": (
                *("--Planner.replicas=1", "--Planner.connector=dry-run"),
                *(f"--Planner.profile={_PROFILE}", f"--Planner.step_seconds={_STEP_SECONDS}"),
                f"--Common.system_port={planner}",
            ),
        }
        processes = {
            name: start("-m", "auricle", "component", name, *common, *settings)
            for name, settings in own_settings.items()
        }
        yield Deployment(
            etcd,
            health,
            f"http://127.0.0.1:{frontend}",
            f"http://127.0.0.1:{planner}",
            common,
            start,
            {"etcd": servers["etcd"], "nats": servers["nats-server"], **processes},
        )


@dataclass(frozen=True)
class Cost:
    """With a number of workers: cores of each process, messages per second, and of sessions.

    `joining` has the seconds until new workers are used, and the CPU seconds of each process then.
    """

    cores: dict[str, float]
    messages: dict[str, float]
    per_session: float  # cores of the processor
    lag_p95_seconds: float
    joining_seconds: float
    joining: dict[str, float]


def _measure(deployment: Deployment, workers: int, seconds: float) -> Cost:
    before = deployment.cpu()
    joining = deployment.grow(workers)
    joined = deployment.cpu()
    target, session = Target(deployment.frontend, "demo"), protocol("stream")
    _until(lambda: httpx.get(f"{deployment.frontend}/health", timeout=5).is_success, "not ready")
    # The first sessions are slower.
    asyncio.run(run_trial(Load(2, 8.0), Planner(_STYLE, 0), session, target))
    idle, idle_messages, began = deployment.cpu(), deployment.messages(), time.monotonic()
    time.sleep(seconds)
    cpu, messages, took = deployment.cpu(), deployment.messages(), time.monotonic() - began
    cores = {name: (cpu[name] - idle[name]) / took for name in cpu}
    load = Load(_SESSIONS, max(seconds, _SHORTEST_TRIAL_SECONDS), 100, Slo())
    trial = asyncio.run(run_trial(load, Planner(_STYLE, workers), session, target))
    busy = (deployment.cpu()["Processor"] - cpu["Processor"]) / trial.seconds
    figures = trial.figures()
    return Cost(
        cores=cores,
        messages={name: (messages[name] - idle_messages[name]) / took for name in messages},
        per_session=(busy - cores["Processor"]) / (trial.open_seconds / trial.seconds),
        lag_p95_seconds=figures["partial_lag_p95_ms"] / 1000,
        joining_seconds=joining,
        joining={name: joined[name] - before[name] for name in joined},
    )


def exponent(costs: Mapping[int, float]) -> float:
    """Return the slope of the cost on logarithmic axes between the two largest numbers.

    The cost of the smallest number is subtracted if it is less than half of the next to last;
    otherwise the difference would be noise.
    """
    smallest, *_, fewer, more = sorted(costs)
    own, low, high = (costs[n] for n in (smallest, fewer, more))
    if low < 2 * own:
        return math.log(high / low) / math.log(more / fewer)
    return math.log((high - own) / (low - own)) / math.log((more - smallest) / (fewer - smallest))


def _processes(run: Run) -> dict[str, float]:
    sizes = {"full": (2, 10, 100, 300), "quick": (2, 10, 40), "smoke": (2, 4, 6)}[run.size]
    seconds = run.of(60, 20, 3)
    costs: dict[int, Cost] = {}
    with deployed(run.folder / "scale.log") as deployment:
        for workers in sizes:
            costs[workers] = cost = _measure(deployment, workers, seconds)
            run.details[f"workers_{workers}"] = vars(cost)
            run.save()
    largest = costs[sizes[-1]]
    found = {"processes": float(sizes[-1])}
    for name, cores in largest.cores.items():
        each = name == "workers"
        label = "worker" if each else name.lower()
        found[f"cores_{label}"] = cores / sizes[-1] if each else cores
        found[f"growth_{label}"] = exponent({n: cost.cores[name] for n, cost in costs.items()})
    found |= {f"messages_{name}": value for name, value in largest.messages.items()}
    return found | {
        "joining_seconds": largest.joining_seconds,
        "cores_per_session": largest.per_session,
        "cores_per_session_ratio": largest.per_session / costs[sizes[0]].per_session,
    }


# The functions whose work depends on the number of workers


def _report(instance: int) -> WorkerLoad:
    pool = REQUIRED_POOLS[instance % 2]
    work = dict.fromkeys(pool.units, 1.0)
    return WorkerLoad(
        pool.kind, instance, _REPORT_SECONDS, work, 0.5, 10.0, 0.0, 0.05, 0.01,
        slots_used=instance % 7, slots_total=64,
    )  # fmt: skip


def _seconds_of(work: Callable[[], object], times: int) -> float:
    """Return the seconds that one call takes, on average."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def _decisions_of(workers: int) -> dict[str, Callable[[], float]]:
    """Return how to measure the seconds of a placement, of a planner's observation, and of one
    report of each worker."""
    reports = [_report(instance) for instance in range(workers)]
    loads, placed, in_turn = WorkerLoads(), Counter[int](), itertools.cycle(reports)
    board = LoadBoard(read_profile(_PROFILE), seconds=math.inf)
    for _ in range(round(_DEFAULT_STEP_SECONDS / _REPORT_SECONDS)):
        for report in reports:
            board.worker(report)

    def place() -> int:
        return loads.best(loads.open(range(workers)), placed, {})

    def observe() -> list[PoolObservation]:
        return [board.pool(pool.kind, workers) for pool in REQUIRED_POOLS]

    return {
        "reports": lambda: workers * _seconds_of(lambda: loads.update(next(in_turn)), 2 * workers),
        "placement": lambda: _seconds_of(place, 20),
        "planner_step": lambda: _seconds_of(observe, 3),
    }


def _decisions(run: Run) -> dict[str, float]:
    sizes, turns = (2, 10, 100, 300, 1000), run.of(30, 10)
    decisions = {workers: _decisions_of(workers) for workers in sizes}
    found = {}
    for name in decisions[sizes[0]]:
        measured = defaultdict[int, list[float]](list)
        for _ in range(turns):  # of all sizes, as the machine's speed changes
            for workers in sizes:
                measured[workers].append(decisions[workers][name]())
        seconds = {workers: statistics.median(each) for workers, each in measured.items()}
        run.details[f"seconds_{name}"] = seconds
        found[f"milliseconds_{name}"] = 1000 * seconds[sizes[-1]]
        found[f"growth_{name}"] = exponent(seconds)
    return found


BENCHMARK = Benchmark(description=__doc__, parts={"decisions": _decisions, "processes": _processes})

if __name__ == "__main__":
    main(BENCHMARK)
