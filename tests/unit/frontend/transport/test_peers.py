"""Limits of keys hold over all frontends, and a session moves to the newest of its connections."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from auricle.core.errors import RateLimited
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from tests.fakes.peers import Deployment
from tests.fakes.virtual_time import run

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("seed", range(20))
def test_sessions_that_begin_together_never_exceed_their_keys_limit(seed: int) -> None:
    """Clients connect and leave at random moments, at up to five frontends."""
    chance = random.Random(seed)
    limit, frontends = chance.randint(1, 6), chance.randint(2, 5)
    deployment = Deployment(frontends, seed)
    open_now: Counter[str] = Counter()
    most, refused = 0, 0

    async def client(tenant: str) -> None:
        nonlocal most, refused
        await asyncio.sleep(chance.random())
        try:
            async with chance.choice(deployment.peers).place(tenant, limit):
                open_now[tenant] += 1
                most = max(most, open_now[tenant])
                await asyncio.sleep(chance.random())
                open_now[tenant] -= 1
        except RateLimited:
            refused += 1

    async def crowd() -> None:
        await asyncio.gather(*(client(tenant) for tenant in ("acme", "globex") for _ in range(60)))

    run(crowd())
    assert most == limit
    assert refused


def test_a_burst_fills_the_limit_exactly() -> None:
    """Of clients that come in the same moment as many get in as the limit has places."""
    deployment = Deployment(2)

    async def burst() -> int:
        leave, refused = asyncio.Event(), 0

        async def client(number: int) -> None:
            nonlocal refused
            try:
                async with deployment.peers[number % 2].place("acme", 4):
                    await leave.wait()
            except RateLimited:
                refused += 1
                if refused == 16:
                    leave.set()

        async with asyncio.timeout(60):
            await asyncio.gather(*(client(number) for number in range(20)))
        return refused

    assert run(burst()) == 16


def test_a_place_is_free_for_the_other_frontend_once_its_session_has_ended() -> None:
    async def moving() -> None:
        first, second = Deployment(2).peers
        async with first.place("acme", 1):
            with pytest.raises(RateLimited, match="1 sessions open"):
                async with second.place("acme", 1):
                    pass
            async with second.place("globex", 1):
                pass
        async with second.place("acme", 1):
            pass

    run(moving())


def test_a_frontend_that_does_not_answer_excludes_nobody() -> None:
    async def alone() -> None:
        deployment = Deployment(2)
        first, second = deployment.peers
        async with first.place("acme", 1):
            deployment.silent.add(0)
            async with second.place("acme", 1):
                pass

    run(alone())


@pytest.mark.parametrize("seed", range(10))
def test_of_connections_that_resume_one_session_together_one_stays(seed: int) -> None:
    deployment = Deployment(3, seed)

    async def connection(number: int, ended: list[int]) -> None:
        peers = deployment.peers[number % 3]
        async with (
            peers.place("acme", 1, resumes=True),
            peers.serving("session", "acme", None, resumes=True) as taken_over,
        ):
            await taken_over.wait()
            ended.append(number)

    async def crowd() -> list[int]:
        ended: list[int] = []
        connections = [asyncio.create_task(connection(number, ended)) for number in range(6)]
        await asyncio.wait(connections, timeout=60)
        stays = [one for one in connections if not one.done()]
        for one in stays:
            one.cancel()
        assert len(stays) == 1
        return ended

    assert len(run(crowd())) == 5


def test_a_session_that_resumes_elsewhere_takes_its_own_place() -> None:
    """Its old connection looks alive at the first frontend, and its key may have one session."""

    async def moving() -> None:
        first, second = Deployment(2).peers
        began, left = asyncio.Event(), asyncio.Event()

        async def older() -> None:
            async with (
                first.place("acme", 1),
                first.serving("session", "acme", 1, resumes=False) as taken_over,
            ):
                began.set()
                await taken_over.wait()
            left.set()

        serving = asyncio.create_task(older())
        await began.wait()
        async with (
            second.place("acme", 1, resumes=True),
            second.serving("session", "acme", 1, resumes=True),
        ):
            assert left.is_set()
            with pytest.raises(RateLimited):
                async with first.place("acme", 1):
                    pass
        await serving

    run(moving())


def test_a_resumed_session_exceeds_the_limit_while_another_one_is_open() -> None:
    async def resuming() -> None:
        first, second = Deployment(2).peers
        async with first.place("acme", 1), second.place("acme", 1, resumes=True):
            with pytest.raises(RateLimited):
                async with second.serving("ended before", "acme", 1, resumes=True):
                    pass

    run(resuming())


def test_audio_of_one_frontend_counts_at_the_others() -> None:
    secret, entry = new_key("acme")
    entry = entry.model_copy(update={"audio_minutes_per_minute": 1.0})
    headers = {"authorization": f"Bearer {secret}"}

    async def rated() -> None:
        deployment = Deployment(2)
        accesses = [Access(KeyRing([entry]), peers) for peers in deployment.peers]
        first, second = (access.client(headers) for access in accesses)
        first.spend(1000.0)  # before the second frontend started
        following = asyncio.create_task(accesses[1].follow_peers())
        await asyncio.sleep(1.5)
        async with second.session():
            pass
        first.spend(40.0)
        await asyncio.sleep(1.5)
        async with second.session():
            pass
        first.spend(40.0)
        await asyncio.sleep(1.5)
        with pytest.raises(RateLimited, match="1 minutes of audio per minute"):
            async with second.session():
                pass
        following.cancel()

    run(rated())


def test_a_frontend_asks_twenty_others_a_second_in_turn() -> None:
    async def rated() -> None:
        deployment = Deployment(51)
        following = asyncio.create_task(
            deployment.peers[0].follow(lambda: True, lambda tenant, seconds: None)
        )
        await asyncio.sleep(0.5)
        assert len(deployment.asked) == 20
        await asyncio.sleep(2.2)
        assert sorted(set(deployment.asked)) == list(range(1, 51))
        assert len(deployment.asked) == 60
        following.cancel()

    run(rated())


def test_a_frontend_that_has_gone_is_forgotten() -> None:
    """If it comes back, its count begins again."""
    charged: list[float] = []

    async def rated() -> None:
        deployment = Deployment(2)
        following = asyncio.create_task(
            deployment.peers[0].follow(
                lambda: True, lambda tenant, seconds: charged.append(seconds)
            )
        )
        await asyncio.sleep(1.5)
        deployment.gone.add(1)
        await asyncio.sleep(1.5)
        deployment.peers[1].charged("acme", 30.0)
        deployment.gone.clear()
        await asyncio.sleep(1.5)
        deployment.peers[1].charged("acme", 10.0)
        await asyncio.sleep(1.5)
        following.cancel()

    run(rated())
    assert charged == [10.0]
