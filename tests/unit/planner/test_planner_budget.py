"""GPUs shared between pools when there are too few for both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.planner.plan import Share, within_budget
from auricle.planner.policy import Decision

pytestmark = pytest.mark.unit


def share(pool: str, wanted: int, gpus: float = 1.0) -> Share:
    return Share(Decision(pool, 1, wanted, "forecast", ""), minimum=1, gpus=gpus)


def given_to(gpus: float, *shares: Share) -> dict[str, int]:
    return {pool: d.replicas for pool, d in within_budget(shares, gpus).items()}


def test_what_fits_is_left_alone() -> None:
    assert given_to(8, share("encode", 2), share("pd", 6)) == {"encode": 2, "pd": 6}


def test_too_few_gpus_are_shared_in_proportion() -> None:
    assert given_to(8, share("encode", 4), share("pd", 12)) == {"encode": 2, "pd": 6}


def test_a_cut_decision_says_so() -> None:
    cut = within_budget([share("encode", 4), share("pd", 12)], 8)["pd"]
    assert cut.why == "budget"
    assert "wanted 12" in cut.detail


@given(st.integers(1, 40), st.integers(1, 40), st.integers(2, 60))
def test_no_other_share_of_the_budget_serves_more(encode: int, pd: int, gpus: int) -> None:
    found = given_to(gpus, share("encode", encode), share("pd", pd))
    assert sum(found.values()) <= max(gpus, 2)
    served = min(found["encode"] / encode, found["pd"] / pd)
    best = max(min(e / encode, (gpus - e) / pd, 1.0) for e in range(1, gpus) if e <= encode)
    assert served >= min(best, 1.0) - 1e-9


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.25, 2.0), st.floats(2.0, 40.0))
def test_the_budget_holds_whatever_a_replica_takes(
    encode: int, pd: int, size: float, gpus: float
) -> None:
    found = given_to(gpus, share("encode", encode, size), share("pd", pd))
    least = size + 1
    assert found["encode"] * size + found["pd"] <= max(gpus, least) + 1e-9
