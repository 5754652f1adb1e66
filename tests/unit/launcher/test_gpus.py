"""Processes that share a GPU: their deadlines, and NVIDIA's Multi-Process Service."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from auricle.config.settings import CommonSettings, EncodeWorkerSettings, PdWorkerSettings
from auricle.core.errors import SettingsError
from auricle.launcher.component import on_its_gpu
from auricle.launcher.gpus import gpu_of, multi_process_service, processes_by_gpu
from auricle.launcher.processes import READY_SECONDS, ProcessFactory

pytestmark = pytest.mark.unit

SHARED = {
    "EncodeWorker": EncodeWorkerSettings(device="cuda", gpus=(0,)),
    "PdWorker": PdWorkerSettings(replicas=3, gpus=(0,), processes_per_device=3),
}
# Records its arguments and its standard input. Fails if the file `fails` exists.
CONTROL = """#!/bin/sh
here=$(dirname "$0")
echo "$* $(cat) $CUDA_MPS_PIPE_DIRECTORY" >> "$here/calls"
test -d "$CUDA_MPS_LOG_DIRECTORY" || exit 9
test ! -e "$here/fails" || exit 3
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs with a fake of MPS's control program; its calls are in `calls`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    control = folder / "nvidia-cuda-mps-control"
    control.write_text(CONTROL)
    control.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return folder


def calls(programs: Path) -> list[str]:
    file = programs / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_replicas_take_gpus_in_turn_and_are_counted() -> None:
    pd = PdWorkerSettings(replicas=3, gpus=(1, 2), processes_per_device=2)
    assert [gpu_of(pd, number) for number in (1, 2, 3)] == [1, 2, 1]
    settings = {"EncodeWorker": EncodeWorkerSettings(device="cuda:1"), "PdWorker": pd}
    assert processes_by_gpu(settings) == Counter({1: 3, 2: 1})
    assert gpu_of(EncodeWorkerSettings(), 1) is None
    assert gpu_of(CommonSettings(), 1) is None


def test_the_deadline_of_a_start_grows_with_the_processes_that_load_on_its_gpu() -> None:
    factory = ProcessFactory(SHARED, [], {}, processes_by_gpu(SHARED))
    assert factory.make("PdWorker", 3).ready_seconds == 4 * READY_SECONDS
    assert factory.make("EncodeWorker", 1).ready_seconds == 4 * READY_SECONDS
    without_gpus = ProcessFactory(SHARED, [], {})
    assert without_gpus.make("PdWorker", 3).ready_seconds == READY_SECONDS


async def test_processes_that_share_a_gpu_compute_at_the_same_time(
    programs: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    async with multi_process_service(
        CommonSettings(), processes_by_gpu(SHARED), tmp_path, said.append
    ) as variables:
        assert variables["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path / "mps")
        assert len(calls(programs)) == 1
    assert said == ["GPU 0 runs its processes at the same time, through MPS"]
    assert [" ".join(call.split()) for call in calls(programs)] == [
        f"-d {tmp_path}/mps",
        f"quit {tmp_path}/mps",
    ]


async def test_a_machine_without_the_service_is_told_what_it_loses(
    programs: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    (programs / "fails").touch()
    async with multi_process_service(CommonSettings(), {0: 2}, tmp_path, said.append) as variables:
        assert variables == {}
    assert "WARNING: GPU 0 runs one process at a time" in said[0]
    assert "ended with 3; its log is control.log in" in said[0]


async def test_the_service_is_missing_on_a_machine_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    said: list[str] = []
    async with multi_process_service(CommonSettings(), {0: 2}, tmp_path, said.append) as variables:
        assert variables == {}
    assert "nvidia-cuda-mps-control, a part of the NVIDIA driver, is not installed" in said[0]


async def test_the_service_is_left_out_where_it_is_not_wanted(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    shared = {0: 2}
    async with multi_process_service(CommonSettings(mps="off"), shared, tmp_path, said.append):
        pass
    async with multi_process_service(CommonSettings(), {0: 1, 1: 1}, tmp_path, said.append):
        pass
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps")  # the operator's own
    async with multi_process_service(CommonSettings(), shared, tmp_path, said.append) as variables:
        assert variables == {}
    assert calls(programs) == said == []


def test_a_process_sees_only_the_gpu_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert on_its_gpu(EncodeWorkerSettings(device="cuda")).device == "cuda"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert on_its_gpu(EncodeWorkerSettings(device="cuda:1")).device == "cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6")
    assert on_its_gpu(EncodeWorkerSettings(device="cuda:1")).device == "cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    with pytest.raises(SettingsError, match=r"device is cuda:1, but CUDA_VISIBLE_DEVICES '6' name"):
        on_its_gpu(EncodeWorkerSettings(device="cuda:1"))
    assert on_its_gpu(PdWorkerSettings()) == PdWorkerSettings()
