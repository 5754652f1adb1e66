"""What `python -m benchmarks.gpu` runs, keeps and says; its parts run in `make gpu-quick`."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.checkpoints import SIZES
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import part as parts
from benchmarks.gpu.busy import Busy, gpu_busy, sampled, visible
from benchmarks.gpu.found import Found, Task
from benchmarks.gpu.part import PartFailed
from benchmarks.gpu.parts import COMPARED, PARTS
from benchmarks.gpu.results import Results
from benchmarks.gpu.scale import FULL, QUICK
from tests.server import ROOT

pytestmark = pytest.mark.unit
SMALL = ("--device", "cpu", "--quick")


class Machine:
    """Stands in for the parts' processes: each finds 1 for its figures, or fails."""

    def __init__(self, failing: Sequence[str] = ()) -> None:
        self.ran: list[str] = []
        self.failing = set(failing)

    def run(self, task: Task, seconds: float) -> Found:
        assert seconds <= 600
        self.ran.append(task.part)
        if task.part in self.failing:
            raise PartFailed("out of memory")
        if task.part in COMPARED:
            assert task.ceilings
        return Found(dict.fromkeys(PARTS[task.part].figures, 1.0))


def benchmark(machine: Machine, out: Path, *words: str) -> int:
    """The status that the command ends with."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(command, "run", machine.run)
        command.main([*SMALL, "--out", str(out), *words])
    return int(ended.value.code or 0)


def read(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_a_part_that_has_its_figures_is_not_run_again_unless_asked(tmp_path: Path) -> None:
    out, machine = tmp_path / "new" / "gpu.json", Machine()
    assert benchmark(machine, out, "--only", "hop", "pd") == 0
    assert machine.ran == ["pd", "hop"]
    assert benchmark(machine, out) == 0
    assert sorted(machine.ran) == sorted(PARTS)
    assert benchmark(machine, out, "--only", "hop") == 0
    assert len(machine.ran) == len(PARTS)
    assert benchmark(machine, out, "--only", "hop", "--again") == 0
    assert machine.ran[len(PARTS) :] == ["hop"]


def test_a_part_that_fails_is_named_hinders_no_other_and_is_run_again(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    assert benchmark(Machine(["pd"]), out) == 1
    assert read(out)["failed"] == {"pd": "out of memory"}
    assert not read(out)["figures"].keys() & set(PARTS["pd"].figures)
    again = Machine()
    assert benchmark(again, out) == 0
    assert again.ran == ["pd"]
    assert read(out)["failed"] == {}
    assert read(out)["figures"].keys() == {f for part in PARTS.values() for f in part.figures}


def test_what_is_compared_with_the_ceilings_has_them_or_is_left_out(tmp_path: Path) -> None:
    machine = Machine()
    assert benchmark(machine, tmp_path / "a.json", "--only", "encoder") == 0
    assert machine.ran == ["ceilings", "encoder"]
    without = Machine(["ceilings"])
    assert benchmark(without, tmp_path / "b.json", "--only", "encoder") == 1
    assert without.ran == ["ceilings"]


def test_no_part_begins_that_may_take_longer_than_there_is_time(tmp_path: Path) -> None:
    machine = Machine()
    assert benchmark(machine, tmp_path / "gpu.json", "--minutes", "3.5") == 0
    assert set(machine.ran) == {name for name, part in PARTS.items() if part.minutes < 3.5}


def test_a_file_of_another_device_or_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    out, other = tmp_path / "gpu.json", tmp_path / "other.json"
    Results(out, device="cuda", quick=False).keep("hop", Found({"hop_vram_p50_ms": 0.2}), 1.0, {})
    with pytest.raises(ValueError, match="has figures of --device cuda, not of --device cpu --qui"):
        Results(out, device="cpu", quick=True)
    other.write_text('{"figures": {}}')
    with pytest.raises(ValueError, match=r"other\.json is no file of this benchmark"):
        Results(other, device="cuda", quick=False)
    assert benchmark(Machine(), out) == 2
    assert read(out)["figures"] == {"hop_vram_p50_ms": 0.2}


def test_the_published_geometry_is_not_for_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["--device", "cpu", "--out", str(tmp_path / "gpu.json")])
    assert "--device cpu needs --quick" in capsys.readouterr().err


def test_what_was_not_measured_is_said_and_is_no_figure(tmp_path: Path) -> None:
    found = Found()
    found.put("hop_vram_p50_ms", None, "no GPU")
    found.put("hop_dram_p50_ms", 1)
    results = Results(tmp_path / "gpu.json", device="cpu", quick=True)
    results.keep("hop", found, 1.0, {})
    assert read(results.path)["figures"] == {"hop_dram_p50_ms": 1.0}
    assert read(results.path)["not_measured"] == {"hop_vram_p50_ms": "no GPU"}
    assert results.lines()[-1].split() == ["hop_vram_p50_ms", "not", "measured:", "no", "GPU"]


def test_every_figure_is_of_one_part_and_defined() -> None:
    figures = [figure for part in PARTS.values() for figure in part.figures]
    assert len(figures) == len(set(figures))
    metrics = (ROOT / "benchmarks/METRICS.md").read_text()
    # Those of the larger encoder are the smaller one's by another name.
    names = {figure.removesuffix("_1_7b") for figure in figures}
    assert not sorted(name for name in names if f"`{name}`" not in metrics)


def test_a_process_without_an_answer_is_a_failure_that_says_how_it_ended() -> None:
    with pytest.raises(PartFailed, match="its process ended with 1"):
        parts.run(Task("no part", "cpu", quick=True), 300.0)
    with pytest.raises(PartFailed, match="not done after 0 s"):
        parts.run(Task("ceilings", "cpu", quick=True), 0.0)


def test_without_a_gpu_nobody_says_how_busy_it_is() -> None:
    with gpu_busy("cpu") as busy:
        pass
    assert (busy.share, busy.why_not) == (None, "no GPU")


def test_a_short_block_is_sampled_at_its_end() -> None:
    with sampled(lambda: 0.4, every_seconds=60.0) as busy:
        pass
    assert busy.samples == [0.4]
    assert Busy(samples=[0.2, 0.4]).share == pytest.approx(0.3)


def test_a_sample_that_fails_is_the_reason_why_there_is_no_share() -> None:
    asked, lost = [0.4], threading.Event()

    def sample() -> float:
        if asked:
            return asked.pop()
        lost.set()
        raise RuntimeError("the GPU is lost")

    with sampled(sample, every_seconds=0.0) as busy:
        assert lost.wait(60.0)
    assert (busy.share, busy.why_not) == (None, "RuntimeError: the GPU is lost")


def test_the_gpus_that_are_watched_are_those_that_the_process_sees() -> None:
    assert visible(2, []) == [0, 1]
    assert visible(1, ["3", "5"]) == [3]
    assert visible(1, ["GPU-4f8e"]) == [0]


def test_checkpoints_are_of_the_published_geometries() -> None:
    full, encoder = SIZES["1.7b"], SIZES[FULL.checkpoint_1_7b]
    assert full.audio == encoder.audio
    assert full.text["hidden_size"] == full.audio["output_dim"]
    assert {QUICK.checkpoint, QUICK.checkpoint_1_7b, FULL.checkpoint} <= SIZES.keys()
