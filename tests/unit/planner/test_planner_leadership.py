"""Two planners never act at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.core.errors import WorkerUnavailable
from auricle.planner.leadership import FileLease, Leadership
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit


class Scripted:
    """A lease with scripted answers."""

    def __init__(self) -> None:
        self.ours: bool | None = True

    async def renewed(self) -> bool:
        if self.ours is None:
            raise WorkerUnavailable("nobody answers")
        return self.ours

    async def release(self) -> None:
        self.ours = False


async def test_of_two_planners_one_leads_and_the_other_follows_when_it_ends(tmp_path: Path) -> None:
    first, second = Leadership(FileLease(tmp_path)), Leadership(FileLease(tmp_path))
    await first.renew()
    await second.renew()
    assert (first.held, second.held) == (True, False)
    await first.release()
    await second.renew()
    assert (first.held, second.held) == (False, True)
    await second.release()
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240


async def test_a_lease_that_is_not_renewed_is_not_believed_for_long() -> None:
    clock, lease = Clock(0.0), Scripted()
    leadership = Leadership(lease, clock)
    await leadership.renew()
    lease.ours = None
    clock.now = 5.0
    with pytest.raises(WorkerUnavailable):
        await leadership.renew()
    assert leadership.held
    clock.now = 11.0
    assert not leadership.held


async def test_a_lease_that_was_lost_is_lost_at_once() -> None:
    lease = Scripted()
    leadership = Leadership(lease, Clock(0.0))
    await leadership.renew()
    lease.ours = False
    await leadership.renew()
    assert not leadership.held
