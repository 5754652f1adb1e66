"""The load of other processes while a profile is measured, and figures that were not measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from auricle.core.errors import AuricleError
from auricle.load.capacity_profile import (
    CapacityProfile,
    OtherProcesses,
    PoolProfile,
    read_profile,
)
from auricle.load.reports import WorkerLoad
from auricle.tools.profiling import run
from auricle.tools.profiling.levels import Level, beyond, costs, knee, level_of
from auricle.tools.profiling.machine_load import CpuTimes, MachineLoad, cpu_times, others_between

pytestmark = pytest.mark.unit


def load_of(*readings: CpuTimes, cores: int = 4) -> MachineLoad:
    left = list(readings)
    load = MachineLoad(lambda: left.pop(0))
    load.cores = cores
    return load


def test_what_others_use_is_the_machines_time_without_our_own() -> None:
    assert others_between(CpuTimes(10.0, 100.0, 30.0), CpuTimes(14.0, 110.0, 34.0)) == 1.5
    # Readings of different clocks may differ by a tick.
    assert others_between(CpuTimes(10.0, 100.0, 30.0), CpuTimes(12.0, 101.0, 31.1)) == 0.0


def test_more_than_a_tenth_of_the_cores_is_notable() -> None:
    load = load_of(CpuTimes(0.0, 0.0, 0.0))
    assert not load.is_notable(0.4)
    assert load.is_notable(0.41)
    assert load.described(1.24) == "other processes use 1.2 of 4 cores"


def test_a_profile_has_the_load_before_and_during_the_measurement(tmp_path: Path) -> None:
    load = load_of(CpuTimes(0, 0, 0), CpuTimes(2, 1, 0), CpuTimes(10, 5, 4), CpuTimes(20, 25, 4))
    before = load.others()
    with load.named_in_errors():
        pass
    others = load.during(before)
    assert others == OtherProcesses(4, 0.5, 2.0)
    pool, decoding = (
        PoolProfile({"windows": 0.1}, 0.1, 3.0),
        PoolProfile({"decodes": 0.2}, 0.1, 3.0),
    )
    file = tmp_path / "p.json"
    CapacityProfile("c", "m", "d", pool, decoding, other_processes=others).write(file)
    assert read_profile(file).other_processes == others
    written = msgspec.json.decode(file.read_bytes())
    assert written["other_processes"] == {"cores": 4, "before": 0.5, "during": 2.0}


@pytest.mark.parametrize(
    ("used", "said"),
    [(10.0, r"too slow \(other processes use 1.0 of 4 cores\)$"), (1.0, "too slow$")],
)
def test_an_error_names_the_load_of_others_if_there_was_any(used: float, said: str) -> None:
    load = load_of(CpuTimes(0, 0, 0), CpuTimes(0, 0, 0), CpuTimes(10, used, 0))
    with pytest.raises(AuricleError, match=said), load.named_in_errors():
        raise AuricleError("too slow")


def test_children_count_as_our_own() -> None:
    before = cpu_times()
    work = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    after = cpu_times()
    assert after.own - before.own >= 0.3
    assert after.everyone - before.everyone >= 0.3


async def test_the_first_line_is_shown_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    readings = [CpuTimes(0, 0, 0), CpuTimes(2, 6, 0)]

    def read() -> CpuTimes:
        assert lines == ["measuring the load of other processes"]
        return readings.pop(0)

    monkeypatch.setattr(run, "MachineLoad", lambda: MachineLoad(read))
    monkeypatch.setattr(run, "_BEFORE_SECONDS", 0.0)
    _, others = await run.others_before(lines.append)
    assert others == 3.0
    assert lines[1].startswith("other processes use 3.0 of ")


# ── figures that were not measured ───────────────────────────────────────────


def report(requests: float, refused: float = 0.0, response: float = 0.0) -> WorkerLoad:
    return WorkerLoad(
        "pd_worker", 1, 1.0, {"decodes": requests}, 0.5, requests, refused, response, 0.0, 0.0, 8
    )


def test_a_worker_that_answers_nothing_is_an_error_and_no_figure_of_0() -> None:
    with pytest.raises(AuricleError, match="answered no request within 2 s, with 3 speakers"):
        level_of(3, [report(0.0), report(0.0)])
    with pytest.raises(AuricleError, match="no load report"):
        level_of(3, [])


def test_a_worker_that_refuses_everything_is_beyond_its_knee() -> None:
    level = level_of(3, [report(0.0, refused=2.0)])
    assert beyond(level, 1e9)
    assert knee([Level(1, {"decodes": 1.0}, 1.0, 0.1, refused=False), level], 0.2) == 1


def fitted(levels: Sequence[Level], units: Sequence[str]) -> dict[str, float]:
    return costs([(levels, 2.0)], units)


def test_units_without_a_cost_of_their_own_are_absent() -> None:
    levels = [Level(n, {"windows": 5.0 * n}, 5.0 * n, 0.1, refused=False) for n in (1, 2)]
    assert fitted(levels, ("windows", "gflops")) == {"windows": pytest.approx(0.1)}


def test_costs_without_any_work_are_an_error() -> None:
    with pytest.raises(AuricleError, match="it counted no windows or gflops below its knee"):
        fitted([Level(1, {}, 1.0, 0.1, refused=False)], ("windows", "gflops"))
