"""A process that discovery has lost registers again, or ends if it cannot."""

from __future__ import annotations

import asyncio

import pytest

from auricle.config.settings import CommonSettings
from auricle.core.errors import ProcessFailed
from auricle.dynamo import dynamo_environment
from auricle.dynamo.registration import Clocks, Listing

pytestmark = pytest.mark.unit


class Discovery:
    """A fake discovery; checks are a second apart."""

    def __init__(self) -> None:
        self.listed = True
        self.written = 0
        self.fails = False
        self.wall = 1_000_000.0
        self.steady = 50.0
        clocks = Clocks(lambda: self.wall, lambda: self.steady)
        self.listing = Listing(self._lists, self._write, clocks)

    async def _lists(self) -> bool:
        return self.listed

    async def _write(self) -> None:
        if self.fails:
            raise Exception("lease not found")
        self.written += 1
        self.listed = True

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            self.wall += 1.0
            self.steady += 1.0
            await self.listing.check()


@pytest.fixture
def discovery() -> Discovery:
    return Discovery()


async def test_a_listed_process_writes_nothing(discovery: Discovery) -> None:
    await discovery.seconds(1000)
    assert discovery.written == 0


async def test_lost_records_are_written_again(discovery: Discovery) -> None:
    await discovery.seconds(3)
    discovery.listed = False
    await discovery.seconds(10)
    assert (discovery.written, discovery.listed) == (1, True)


@pytest.mark.parametrize("jump", [60.0, -60.0])
async def test_all_records_are_written_after_the_clock_was_set(
    discovery: Discovery, jump: float
) -> None:
    """The record that the check watches may still exist when others are gone."""
    await discovery.seconds(3)
    discovery.wall += jump
    await discovery.seconds(1)
    assert discovery.written == 1
    await discovery.seconds(30)
    assert discovery.written == 10  # other processes may again consider them expired


async def test_all_records_are_written_after_everything_stood_still(discovery: Discovery) -> None:
    await discovery.seconds(3)
    discovery.wall += 30.0
    discovery.steady += 30.0
    await discovery.seconds(1)
    assert discovery.written == 1


async def test_a_process_that_discovery_does_not_take_again_ends(discovery: Discovery) -> None:
    """Its lease in etcd is lost; the restarted process gets a new one."""
    await discovery.seconds(3)
    discovery.listed, discovery.fails = False, True
    await discovery.seconds(20)
    with pytest.raises(ProcessFailed, match="does not take it again: lease not found"):
        await discovery.seconds(1)


async def test_a_discovery_that_is_away_for_a_moment_ends_nothing(discovery: Discovery) -> None:
    await discovery.seconds(3)
    for _ in range(3):
        discovery.listed, discovery.fails = False, True
        await discovery.seconds(15)
        discovery.fails = False
        await discovery.seconds(2)
    assert discovery.written == 3


async def test_a_process_is_ready_once_it_is_listed_itself(discovery: Discovery) -> None:
    discovery.listed = False
    beginning = asyncio.create_task(discovery.listing.begin())
    await asyncio.sleep(0)
    assert not beginning.done()
    discovery.listed = True
    await beginning


def test_dynamo_gets_the_lease_of_the_settings() -> None:
    environment = dynamo_environment(CommonSettings(discovery="etcd", etcd_lease_seconds=90))
    assert environment["ETCD_LEASE_TTL"] == "90"


@pytest.mark.parametrize("seconds", [10, 45, 150, 3600])
def test_a_lost_member_of_etcd_is_found_while_the_lease_lasts(seconds: int) -> None:
    """Otherwise the process would end and register again although two members are well."""
    environment = dynamo_environment(CommonSettings(discovery="etcd", etcd_lease_seconds=seconds))
    every = int(environment["ETCD_KEEPALIVE_INTERVAL_SECONDS"])
    assert every >= 5, "etcd ends connections with more frequent pings"
    assert every + int(environment["ETCD_KEEPALIVE_TIMEOUT_SECONDS"]) < seconds
