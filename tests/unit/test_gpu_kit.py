"""What benchmarks/gpu does, as far as it can be tried without a GPU."""

from __future__ import annotations

import pytest

from auricle.launcher.config import load_config, settings_for
from auricle.launcher.processes import ProcessFactory
from auricle.settings import EncodeWorkerSettings, PdWorkerSettings
from benchmarks.gpu.placement import Placement, placed
from benchmarks.gpu.worker import Speech, closed_loops
from tests.server import ROOT

pytestmark = pytest.mark.unit


def test_a_single_gpu_is_shared_and_of_several_each_has_one_process() -> None:
    assert placed(1) == Placement((0,), (0,))
    assert placed(2) == Placement((0,), (1,))
    assert placed(8) == Placement((0, 1), (2, 3, 4, 5, 6, 7))
    with pytest.raises(ValueError, match="0 GPUs"):
        placed(0)


def test_the_configuration_for_eight_gpus_is_that_placement() -> None:
    sections = load_config(ROOT / "configs/h100x8-0.6b.yaml", [])
    settings = {n: settings_for(n, sections, "file") for n in ("EncodeWorker", "PdWorker")}
    assert placed(8) == Placement(settings["EncodeWorker"].gpus, settings["PdWorker"].gpus)
    assert all(one.replicas == len(one.gpus) for one in settings.values())


def test_the_overrides_of_a_placement_are_settings() -> None:
    sections = load_config(None, placed(8).overrides())
    encode = settings_for("EncodeWorker", sections, "here")
    assert isinstance(encode, EncodeWorkerSettings)
    assert (encode.replicas, encode.gpus) == (2, (0, 1))


def test_each_replica_sees_one_gpu_in_turn() -> None:
    shared = PdWorkerSettings(replicas=3, gpus=(4, 5), processes_per_device=2, system_port=9100)
    factory = ProcessFactory({"PdWorker": shared}, ["-f", "x.yaml"], {"A": "1"})
    made = [factory.make("PdWorker", number) for number in (1, 2, 3)]
    assert [p.environment["CUDA_VISIBLE_DEVICES"] for p in made] == ["4", "5", "4"]
    assert [p.name for p in made] == ["PdWorker-1", "PdWorker-2", "PdWorker-3"]
    # One port each: the first has the one that is set.
    assert made[0].command[-1] == "x.yaml"
    assert made[2].command[-1] == "--PdWorker.system_port=9102"


def test_without_gpus_named_a_process_sees_them_all() -> None:
    factory = ProcessFactory({"PdWorker": PdWorkerSettings()}, [], {})
    only = factory.make("PdWorker", 1)
    assert only.name == "PdWorker"
    assert "CUDA_VISIBLE_DEVICES" not in only.environment


def test_finished_seconds_of_a_growing_window_travel_once() -> None:
    windows = Speech(800, 100).growing()
    carried = [block.key for w in windows for block in w.blocks if block.log_mel is not None]
    assert len(carried) == len(set(carried))
    assert [w.frames for w in windows] == [*range(64, 800, 64), 800]
    assert windows[1].supersedes == windows[0].key


async def test_the_worker_answers_as_many_clients_as_there_are() -> None:
    found = await closed_loops(ROOT / "models/demo", "float32", "cpu", 0.1, (1, 4))
    for clients in (1, 4):
        assert found[f"windows_per_s_{clients}"] > 0
        assert found[f"chunks_p99_ms_{clients}"] >= found[f"chunks_p50_ms_{clients}"] > 0
