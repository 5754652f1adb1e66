"""The capacity of a worker from measured load levels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from auricle.core.errors import AuricleError, SettingsError
from auricle.launcher.config import load_config
from auricle.load.capacity_profile import CapacityProfile, PoolProfile, read_profile
from auricle.load.pools import OPTIONAL_POOLS, REQUIRED_POOLS
from auricle.tools.profiling.annotation_load import costs_of
from auricle.tools.profiling.levels import Level, NoRequests, beyond, costs, doubled, knee, ratios
from auricle.tools.profiling.ramp import divided
from auricle.tools.profiling.run import processes_together
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
PROFILES = sorted((ROOT / "configs/profiles").glob("*.json"))


def level(speakers: int, response: float, refused: bool = False, **work: float) -> Level:
    return Level(speakers, work, float(speakers), response, refused)


def test_the_knee_lies_where_the_response_reaches_its_limit() -> None:
    levels = [level(4, 0.02), level(8, 0.04), level(12, 0.08)]
    assert knee(levels, 0.06) == pytest.approx(10.0)


def test_refusals_are_beyond_the_knee_however_quick_the_answers() -> None:
    assert knee([level(4, 0.02), level(8, 0.02, refused=True)], 0.06) == 4


def test_a_worker_that_is_too_slow_for_one_speaker_is_said_so() -> None:
    with pytest.raises(AuricleError, match="takes 90 ms, but the limit is 60 ms"):
        knee([level(1, 0.09)], 0.06)
    with pytest.raises(AuricleError, match="60 ms: wait a little"):
        knee([level(1, 0.09)], 0.06, "wait a little")


def test_a_worker_carries_at_least_the_last_level_if_none_is_beyond_the_limit() -> None:
    assert knee([level(1, 0.01), level(2, 0.02)], 0.06) == 2


async def test_speakers_are_doubled_until_a_response_is_too_slow() -> None:
    found = await doubled(partial(pool, full=99, slow=6), 0.06, most=64, load="", growth=1.2)
    assert [one.speakers for one in found] == [1, 2, 4, 8]
    assert beyond(found[-1], 0.06)


@pytest.mark.parametrize("answers", [0, 4])
async def test_speakers_are_doubled_until_another_pool_brings_no_more_requests(
    answers: int,
) -> None:
    measure = partial(pool, full=5, slow=99, answers=answers)
    found = await doubled(measure, 0.06, most=64, load="", growth=1.2)
    assert [one.speakers for one in found] == [1, 2, 4]
    assert not beyond(found[-1], 0.06)


async def test_a_worker_without_any_request_is_an_error_and_no_level() -> None:
    with pytest.raises(NoRequests):
        await doubled(partial(pool, full=0, slow=9), 0.06, most=64, load="", growth=1.2)


async def test_a_load_that_never_saturates_a_worker_is_an_error() -> None:
    with pytest.raises(AuricleError, match="64 speakers did not saturate it"):
        await doubled(
            partial(pool, full=999, slow=999), 0.06, most=64, load="speakers did not saturate it"
        )


async def pool(speakers: int, *, full: int, slow: int, answers: int = 0) -> Level:
    """A level of a worker that is too slow for `slow` speakers, behind another one that is full
    with `full` speakers and then passes requests of `answers`."""
    if speakers <= full:
        return level(speakers, 0.01 if speakers < slow else 0.1)
    if answers == 0:
        raise NoRequests("a worker answered no request")
    return replace(level(speakers, 0.01), requests_per_second=float(answers))


def test_costs_are_found_from_two_kinds_of_work() -> None:
    """The workers' capacity is 100 a and 50 b a second, so the costs are 0.01 and 0.02."""

    def levels(a: float, b: float) -> tuple[list[Level], float]:
        each = a * 0.01 + b * 0.02
        found = [level(n, 0.0, a=a * n, b=b * n) for n in (1, 2, 4, 8)]
        return found, 1 / each

    found = costs([levels(2.0, 0.5), levels(0.5, 2.0)], ["a", "b"])
    assert found["a"] == pytest.approx(0.01)
    assert found["b"] == pytest.approx(0.02)


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_every_profile_in_the_repository_is_valid(path: Path) -> None:
    read_profile(path)


def test_a_profile_is_what_was_written(tmp_path: Path) -> None:
    pool = PoolProfile({"windows": 0.1}, 0.1, 3.0)
    decoding = PoolProfile({"decodes": 0.2}, 0.1, 3.0)
    written = CapacityProfile("c", "m", "d", pool, decoding)
    written.write(tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == written
    assert decoding.load({"decodes": 4.0, "steps": 9.0}) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Planner.profile"),
        ("{}", "missing required field `checkpoint`"),
        (None, "cannot read Planner.profile"),
    ],
)
def test_a_profile_that_is_none_is_said_so(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "p.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingsError, match=said):
        read_profile(file)
    with pytest.raises(SettingsError, match="auricle profile"):
        read_profile(None)


def test_a_profile_of_unknown_work_is_refused(tmp_path: Path) -> None:
    pool = PoolProfile({"window": 0.1}, 0.1, 3.0)
    CapacityProfile("c", "m", "d", pool, pool).write(tmp_path / "p.json")
    with pytest.raises(SettingsError, match="no unit of work 'window'; known: windows, gflops"):
        read_profile(tmp_path / "p.json")


def test_a_profile_says_how_many_pd_workers_an_encode_worker_feeds(tmp_path: Path) -> None:
    encode = PoolProfile({"windows": 0.1}, 0.1, 3.0, {"2.5": 900.0, "10": 600.0})
    pd = PoolProfile({"decodes": 0.2}, 0.1, 3.0, {"2.5": 300.0, "10": 240.0})
    fed = ratios(encode.streams, pd.streams)
    assert fed == {"2.5": 3.0, "10": 2.5}
    CapacityProfile("c", "m", "d", encode, pd, fed).write(tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json").pd_per_encode_worker == fed
    wrong = PoolProfile({"decodes": 0.2}, 0.1, 3.0, {"10": -1.0})
    CapacityProfile("c", "m", "d", encode, wrong).write(tmp_path / "p.json")
    with pytest.raises(SettingsError, match="streams and times of pd_worker must be finite"):
        read_profile(tmp_path / "p.json")


def test_the_pd_processes_of_a_device_are_measured_together() -> None:
    sections = load_config(ROOT / "configs/h100-0.6b-shared.yaml", [])
    found = processes_together(sections, "file")
    assert found["PdWorker"].overrides("PdWorker") == [
        "--PdWorker.replicas=3",
        "--PdWorker.gpus=[0]",
    ]
    eight = processes_together(load_config(ROOT / "configs/h100x8-0.6b.yaml", []), "file")
    assert eight["PdWorker"].overrides("PdWorker") == [
        "--PdWorker.replicas=1",
        "--PdWorker.gpus=[2]",
    ]
    demo = processes_together(load_config(ROOT / "configs/demo.yaml", []), "file")
    assert demo["EncodeWorker"].overrides("EncodeWorker") == ["--EncodeWorker.replicas=1"]


@pytest.mark.parametrize(
    ("speakers", "cores", "counts"),
    [
        (1, 2, [1]),
        (96, 64, [96]),
        (97, 64, [49, 48]),
        (1000, 64, [91] * 10 + [90]),
        (1000, 2, [1000]),
        (1000, 8, [250] * 4),
    ],
)
def test_speakers_are_divided_between_processes(
    speakers: int, cores: int, counts: list[int]
) -> None:
    found = divided(speakers, 10.0, True, cores)
    assert [group.count for group in found] == counts
    numbers = [n for group in found for n in range(group.first, group.first + group.count)]
    assert numbers == list(range(speakers))


def test_an_align_pool_is_measured_where_there_is_an_aligner() -> None:
    text = {"EncodeWorker", "PdWorker"}
    assert processes_together(load_config(None, []), "test").keys() == text
    with_aligner = load_config(None, ["--Common.align_model=/models/aligner"])
    found = processes_together(with_aligner, "test")
    assert found.keys() == text | {"AlignEncodeWorker", "AlignWorker"}
    assert found["AlignWorker"].processes == 1


def test_every_pool_beside_the_path_that_has_a_model_is_measured() -> None:
    all_models = [f"--Common.{one.checkpoint}=/models/{one.checkpoint}" for one in OPTIONAL_POOLS]
    shared = ["--TranslateWorker.processes_per_device=2", "--TranslateWorker.gpus=[3,4]"]
    found = processes_together(load_config(None, [*all_models, *shared]), "test")
    assert found.keys() == {pool.component for pool in (*REQUIRED_POOLS, *OPTIONAL_POOLS)}
    assert found["TranslateWorker"].overrides("TranslateWorker") == [
        "--TranslateWorker.replicas=2",
        "--TranslateWorker.gpus=[3]",
    ]


def test_what_a_second_of_speech_costs_is_the_inverse_of_what_a_worker_carries() -> None:
    measured = PoolProfile(costs_of(40.0), 0.5, 10.0)
    assert measured.load({"speech_seconds": 60.0}) == pytest.approx(1.5)
