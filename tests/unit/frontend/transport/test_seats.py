"""Places, shares and rates of clients."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from auricle.core.errors import RateLimited
from auricle.frontend.transport.addresses import UNKNOWN, host_of
from auricle.frontend.transport.slots import Rates, Seat, Seats, Shares
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit


def taken(seats: Seats, client: str, number: int) -> list[Seat]:
    found = [seats.take(client) for _ in range(number)]
    return [seat for seat in found if seat is not None]


def test_there_are_so_many_seats() -> None:
    seats = Seats(3)
    first, *_ = taken(seats, "a", 3)
    assert seats.take("a") is None
    first.leave()
    assert seats.take("a") is not None
    assert seats.taken == 3


def test_one_client_with_all_seats_keeps_nobody_out() -> None:
    seats, told = Seats(4), []
    greedy = taken(seats, "greedy", 4)
    for number, seat in enumerate(greedy):
        seat.on_loss(lambda number=number: told.append(number))
    assert seats.take("other") is not None
    assert told == [3]  # the newest, which has lost least
    assert greedy[3].taken_away
    greedy[3].leave()  # as its owner does in the end
    assert seats.taken == 4
    assert seats.take("greedy") is None


def test_seats_are_taken_away_until_both_have_as_many() -> None:
    seats = Seats(6)
    taken(seats, "greedy", 6)
    assert len(taken(seats, "other", 6)) == 3
    assert len(taken(seats, "third", 6)) == 2
    assert seats.taken == 6


def test_a_confirmed_seat_is_not_taken_away() -> None:
    seats = Seats(4)
    for seat in taken(seats, "greedy", 4)[:2]:
        seat.confirm()
    assert len(taken(seats, "other", 4)) == 1
    for seat in taken(Seats(3), "settled", 3):
        seat.confirm()


def test_clients_with_one_seat_each_keep_theirs() -> None:
    seats = Seats(3)
    for client in ("a", "b", "c"):
        assert seats.take(client) is not None
    assert seats.take("d") is None


def test_one_client_may_hold_so_many() -> None:
    shares = Shares(2, "uploads")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(shares.one("a"))
        with pytest.raises(RateLimited, match="you have 2 uploads open"), shares.one("a"):
            pass
        stack.enter_context(shares.one("b"))
    assert not shares._held


def test_a_share_of_zero_is_no_limit() -> None:
    shares = Shares(0, "uploads")
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(shares.one("a"))


def test_a_rate_holds_two_seconds_and_says_when_there_is_more() -> None:
    clock = Clock()
    rates = Rates(4.0, "handshakes", clock)
    for _ in range(8):
        rates.spend("a")
    with pytest.raises(RateLimited, match="more than 4 handshakes a second") as refused:
        rates.spend("a")
    assert refused.value.retry_after_seconds == pytest.approx(0.25)
    rates.spend("b")
    clock.now += 0.25
    rates.spend("a")
    with pytest.raises(RateLimited):
        rates.spend("a")


def test_a_rate_of_zero_is_no_limit() -> None:
    rates = Rates(0.0, "handshakes")
    for _ in range(1000):
        rates.spend("a")


def test_so_many_clients_are_remembered() -> None:
    rates = Rates(1.0, "handshakes", Clock(), most_clients=100)
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
