"""Slots, concurrency limits and rates of clients."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from auricle.core.errors import Overloaded, RateLimited
from auricle.frontend.transport.addresses import UNKNOWN, host_of, networks_of
from auricle.frontend.transport.slots import (
    ConcurrencyLimit,
    NetworkLimit,
    NetworkRates,
    RateLimiter,
    SessionSlot,
    SessionSlots,
)
from auricle.load.fairness import SILENT_SECONDS, share_of
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit


def taken(slots: SessionSlots, client: str, number: int) -> list[SessionSlot]:
    found = [slots.take(client) for _ in range(number)]
    return [slot for slot in found if slot is not None]


def silent(limit: int, client: str, number: int) -> tuple[SessionSlots, Clock]:
    """Slots, and one client with this number of sessions that have just begun."""
    clock = Clock()
    slots = SessionSlots(limit, clock)
    for slot in taken(slots, client, number):
        slot.confirm()
    return slots, clock


def slots_of(slots: SessionSlots, client: str) -> list[SessionSlot]:
    return list(slots._clients[client].begun)


def test_there_are_so_many_seats() -> None:
    slots = SessionSlots(3)
    first, *_ = taken(slots, "a", 3)
    assert slots.take("a") is None
    first.release()
    assert slots.take("a") is not None
    assert slots.taken == 3


def test_one_client_with_all_seats_keeps_nobody_out() -> None:
    slots, told = SessionSlots(4), []
    greedy = taken(slots, "greedy", 4)
    for number, slot in enumerate(greedy):
        slot.on_preempted(lambda number=number: told.append(number))
    assert slots.take("other") is not None
    assert told == [3]  # the newest one, which loses least
    assert greedy[3].preempted
    greedy[3].release()  # the owner's call at its end
    assert slots.taken == 4
    assert slots.take("greedy") is None


def test_seats_are_taken_away_until_both_have_as_many() -> None:
    slots = SessionSlots(6)
    taken(slots, "greedy", 6)
    assert len(taken(slots, "other", 6)) == 3
    assert len(taken(slots, "third", 6)) == 2
    assert slots.taken == 6


def test_a_confirmed_seat_is_not_taken_away() -> None:
    slots = SessionSlots(4)
    for slot in taken(slots, "greedy", 4)[:2]:
        slot.confirm()
    assert len(taken(slots, "other", 4)) == 1


def test_a_client_with_fewer_gets_the_seat_that_has_been_silent_for_longest() -> None:
    slots, clock = silent(4, "idle", 4)
    speaker, second, third, _ = slots_of(slots, "idle")
    clock.now += SILENT_SECONDS - 1
    speaker.spoke()
    assert slots.take("other") is None
    clock.now += 1
    assert slots.take("idle") is None, "it has as many"
    new = slots.take("other")
    assert new is not None
    assert new.instead_of is second
    new.confirm()
    assert [slot.preempted for slot in (speaker, second, third)] == [False, True, False]
    assert slots.taken == 4
    assert slots.take("third") is not None
    assert slots.take("other") is not None
    assert slots.take("third") is None, "only the speaker is left"
    assert not speaker.preempted


def test_the_greediest_of_the_silent_clients_loses_a_seat() -> None:
    slots, clock = silent(5, "one", 1)
    for client, number in (("three", 3), ("speaker", 1)):
        for slot in taken(slots, client, number):
            slot.confirm()
    clock.now += SILENT_SECONDS
    slots_of(slots, "speaker")[0].spoke()
    new = slots.take("other")
    assert new is not None
    assert new.instead_of is not None
    assert new.instead_of.client == "three"


def test_a_seat_that_was_lost_or_left_is_not_protected_by_late_speech() -> None:
    slots, clock = silent(2, "idle", 2)
    lost, left = slots_of(slots, "idle")
    clock.now += SILENT_SECONDS
    assert slots.take("other") is not None
    left.release()
    for slot in (lost, left):
        slot.spoke()
        slot.confirm()
        slot.release()
    assert slots.held("idle") == 0
    assert slots.taken == 1


def test_who_was_told_to_give_up_a_seat_is_gone_once_its_session_has_ended() -> None:
    slots, clock = silent(1, "idle", 1)
    told: list[str] = []
    slots_of(slots, "idle")[0].on_preempted(lambda: told.append("told"))
    clock.now += SILENT_SECONDS
    new = slots.take("other")
    assert new is not None
    assert new.instead_of is not None
    assert told == ["told"]
    assert not new.instead_of.gone.is_set()
    new.instead_of.leave()
    assert new.instead_of.gone.is_set()
    new.instead_of.release()
    assert slots.taken == 1


@pytest.mark.parametrize(
    ("places", "share"), [(1, 1), (2, 1), (3, 2), (8, 7), (16, 14), (64, 56), (512, 448)]
)
def test_a_share_leaves_places_to_others(places: int, share: int) -> None:
    assert share_of(places) == share


def test_clients_with_one_seat_each_keep_theirs() -> None:
    slots = SessionSlots(3)
    for client in ("a", "b", "c"):
        assert slots.take(client) is not None
    assert slots.take("d") is None


def test_one_client_may_hold_so_many() -> None:
    shares = ConcurrencyLimit(2, "uploads")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(shares.one("a"))
        with pytest.raises(RateLimited, match="you have 2 uploads open"), shares.one("a"):
            pass
        stack.enter_context(shares.one("b"))
    assert not shares._held


def test_a_share_of_zero_is_no_limit() -> None:
    shares = ConcurrencyLimit(0, "uploads")
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(shares.one("a"))


def test_a_rate_holds_two_seconds_and_says_when_there_is_more() -> None:
    clock = Clock()
    rates = RateLimiter(4.0, "handshakes", clock)
    for _ in range(8):
        rates.spend("a")
    with pytest.raises(
        RateLimited, match="rate limit exceeded: 4 handshakes per second"
    ) as refused:
        rates.spend("a")
    assert refused.value.retry_after_seconds == pytest.approx(0.25)
    rates.spend("b")
    clock.now += 0.25
    rates.spend("a")
    with pytest.raises(RateLimited):
        rates.spend("a")


def test_a_rate_of_zero_is_no_limit() -> None:
    rates = RateLimiter(0.0, "handshakes")
    for _ in range(1000):
        rates.spend("a")


def test_the_networks_of_a_client_are_counted_and_all_clients_together() -> None:
    limit = NetworkLimit(2, "calls", most=5)
    inside = [networks_of((f"2001:db8:0:{n}::1", 1)) for n in (0, 0, 1, 2)]
    for networks in inside:
        limit.enter(networks)
    with pytest.raises(RateLimited, match="you have 2 calls open"):
        limit.enter(inside[0])
    limit.enter(inside[0], always=True)  # one that was inside before
    with pytest.raises(Overloaded, match="all 5 calls are in use"):
        limit.enter(("10.0.0.1",))
    for networks in (*inside, inside[0]):
        limit.leave(networks)
    with limit.one(()):  # a trusted proxy
        assert limit._entered == 1
    assert not limit._entered
    assert not any(one._held for one in limit._limits)


def test_a_site_has_the_rate_of_four_networks() -> None:
    rates = NetworkRates(1.0, "calls", Clock())
    sites = [networks_of((f"2001:db8:{site}:{n}::1", 1)) for site in (0, 1) for n in range(9)]
    for networks in sites[:4] * 2:
        rates.spend(networks)
    with pytest.raises(RateLimited, match="4 calls per second"):
        rates.spend(sites[4])
    rates.spend(sites[9])


def test_a_network_can_be_charged_beyond_its_rate() -> None:
    clock = Clock()
    rates = NetworkRates(2.0, "calls", clock)
    rates.charge(("10.0.0.1",), 3.0)
    assert rates.owed(("10.0.0.1",)) == 0.0
    rates.charge(("10.0.0.1",), 7.0)
    assert rates.owed(("10.0.0.1",)) == 3.0  # it had 4 tokens
    clock.now += 3.0
    with pytest.raises(RateLimited) as refused:
        rates.spend(("10.0.0.1",))
    assert refused.value.retry_after_seconds == pytest.approx(0.5)
    rates.spend(("10.0.0.2",))


def test_so_many_clients_are_remembered() -> None:
    rates = RateLimiter(1.0, "handshakes", Clock(), most_clients=100)
    for _ in range(2):
        rates.spend("first")
    for number in range(99):
        rates.spend(f"client {number}")
    with pytest.raises(RateLimited):
        rates.spend("first")
    for number in range(100_000):
        rates.spend(f"client {number}")
    assert len(rates._buckets) == 100


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("nonsense" * 1000, UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_who_is_one_client(address: str, host: str) -> None:
    assert host_of((address, 1)) == host


def test_a_unix_socket_has_no_host() -> None:
    assert host_of(None) == UNKNOWN
