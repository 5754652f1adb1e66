"""The comparison of two servers that are measured in pairs."""

from __future__ import annotations

import pytest

from benchmarks.before.pairs import ratio, ratios
from benchmarks.before.trees import NoSuchCommit, work_tree
from benchmarks.load.control.engine_pairs import figures, since
from benchmarks.prepared import ROOT

pytestmark = pytest.mark.unit


def test_a_ratio_is_the_median_of_the_pairs_and_not_of_the_medians() -> None:
    # The machine is three times slower during the last two pairs.
    before, now = [1.0, 1.0, 1.0, 3.0, 3.0], [0.5, 0.5, 0.5, 1.5, 1.5]
    found = ratio(before, now)
    assert found.ratio == pytest.approx(0.5)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert (found.before, found.now) == (1.0, 0.5)


def test_an_interval_lies_within_the_pairs_and_holds_the_ratio() -> None:
    found = ratio([1.0] * 7, [0.8, 0.9, 1.0, 1.1, 1.2, 0.95, 1.05])
    assert 0.8 <= found.low < found.ratio < found.high <= 1.2


def test_few_pairs_have_an_interval_of_all_of_them() -> None:
    found = ratio([1.0, 1.0], [0.5, 2.0])
    assert (found.low, found.high) == (0.5, 2.0)


def test_only_figures_that_all_measurements_have_are_compared() -> None:
    found = ratios([{"a": 1.0, "b": 1.0}], [{"a": 2.0, "c": 1.0}])
    assert {name: one.ratio for name, one in found.items()} == {"a": 2.0}


def test_the_engines_of_two_commits_are_compared_by_requests_per_core_second() -> None:
    before = [{"per_core_second": 300.0, "api_cpu_ms": 1.2, "core_cpu_ms": 2.0, "steps": 3.0}]
    now = [{"per_core_second": 750.0, "api_cpu_ms": 0.3, "core_cpu_ms": 1.0, "steps": 2.0}]
    found = figures(ratios(before, now))
    assert found["pd_requests_ratio_before"] == pytest.approx(2.5)
    assert found["pd_requests_api_cpu_ratio_before"] == pytest.approx(0.25)
    assert found["pd_engine_requests_per_core_s_before"] == 300.0


def test_a_commit_lies_in_a_tree_of_its_own_until_the_block_ends() -> None:
    with work_tree("HEAD") as tree:
        assert (tree / "components/auricle/__init__.py").exists()
        assert tree != ROOT
    assert not tree.exists()


def test_a_commit_that_is_not_there_is_an_error() -> None:
    with (
        pytest.raises(NoSuchCommit, match="no-such-commit is not in this clone"),
        work_tree("no-such-commit"),
    ):
        pass


def test_a_clone_without_the_base_has_no_ratio_to_it() -> None:
    why, found = since("no-such-commit", 1, 1.0)
    assert "no-such-commit" in why
    assert list(found) == ["pd_requests_ratio_before"]
