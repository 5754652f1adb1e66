"""The pools that a deployment promises, as a frontend finds them in discovery."""

from __future__ import annotations

import pytest

from auricle.core.errors import WorkerUnavailable
from auricle.frontend.link.served_pools import PATIENCE
from tests.fakes.pools import Pools

pytestmark = pytest.mark.unit


async def test_nothing_is_missing_while_every_pool_has_a_worker() -> None:
    pools = Pools()
    await pools.looked()
    assert pools.missing == pools.awaited == ()
    for annotation in ("", "words", "speakers", "translations"):
        pools.check(annotation)


async def test_a_pool_that_was_never_there_is_missing_at_once() -> None:
    pools = Pools("pd_worker", "translate_worker")
    pools.listings["translate_worker"].instances.clear()
    await pools.looked()
    assert pools.missing == pools.awaited == ("translate_worker",)


async def test_a_worker_that_restarts_is_not_missed() -> None:
    pools = Pools("pd_worker")
    await pools.looked()
    await pools.empty("pd_worker", looks=PATIENCE - 1)
    assert pools.missing == ()
    pools.listings["pd_worker"].instances.append(2)
    await pools.looked()
    await pools.empty("pd_worker", looks=PATIENCE - 1)
    assert pools.missing == ()  # it counts from its last worker
    await pools.looked()
    assert pools.missing == pools.awaited == ("pd_worker",)


async def test_a_frontend_stays_ready_if_an_optional_pool_is_lost() -> None:
    pools = Pools("pd_worker", "diarize_worker")
    await pools.looked()
    await pools.empty("diarize_worker")
    assert (pools.missing, pools.awaited) == (("diarize_worker",), ())


async def test_a_planner_empties_optional_pools_but_no_other() -> None:
    pools = Pools("pd_worker", "diarize_worker", planners=1)
    await pools.empty("pd_worker", "diarize_worker")
    assert list(pools.missing) == list(pools.awaited) == ["pd_worker"]
    pools.check("speakers")
    pools.planner.instances.clear()
    await pools.looked(PATIENCE)
    assert list(pools.missing) == ["pd_worker", "diarize_worker"]


async def test_if_discovery_is_silent_its_last_answer_holds() -> None:
    pools = Pools("pd_worker")
    await pools.looked()
    pools.listings["pd_worker"].silent = True
    await pools.looked(2 * PATIENCE)
    assert pools.missing == ()


@pytest.mark.parametrize(
    ("empty", "annotation", "told"),
    [
        (["encode_worker"], "", "no encode_worker of this server is running; try again"),
        (
            ["encode_worker", "pd_worker"],
            "",
            "no encode_worker and no pd_worker of this server is running; try again",
        ),
        (
            ["align_encode_worker"],
            "words",
            "no align_encode_worker of this server is running, which words need; try again",
        ),
        (
            ["translate_worker"],
            "translations",
            "no translate_worker of this server is running, which translations need; try again",
        ),
    ],
)
async def test_clients_are_told_the_missing_pool(
    empty: list[str], annotation: str, told: str
) -> None:
    pools = Pools()
    await pools.looked()
    await pools.empty(*empty)
    with pytest.raises(WorkerUnavailable) as refused:
        pools.check(annotation)
    assert (refused.value.code, refused.value.for_client) == ("unavailable", told)
    pools.check("speakers")  # others do not need it
