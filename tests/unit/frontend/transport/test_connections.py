"""The table of connections: whom a full one admits, and at whose expense."""

from __future__ import annotations

import pytest

from auricle.core.errors import AuricleError, Overloaded, RateLimited
from auricle.frontend.transport.connections import (
    ConnectionLimits,
    Connections,
    in_use,
    serving,
    shown_key,
)
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit


class Connection:
    def __init__(self, host: str) -> None:
        self.client = (host, 1)
        self.aborted = False
        self.error: AuricleError | None = None

    def check_deadlines(self, now: float) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True

    def refused(self, error: AuricleError) -> None:
        self.error = error


def opened(
    connections: Connections, host: str, number: int, transport: str = "http"
) -> list[Connection]:
    made = [Connection(host) for _ in range(number)]
    for connection in made:
        connections.enter(connection, transport)
    return made


def test_idle_connections_of_the_greediest_network_make_room() -> None:
    ended: list[str] = []
    connections = Connections(ConnectionLimits(most=8), ended=ended.append)
    greedy = opened(connections, "10.0.0.1", 5)
    others = opened(connections, "10.0.0.2", 3)
    opened(connections, "10.0.0.3", 1)
    assert [one.aborted for one in greedy] == [True, False, False, False, False]  # the oldest
    assert not any(one.aborted for one in others)
    assert len(connections) == 8
    connections.leave(greedy[0])  # when its transport reports it
    assert len(connections) == 8
    assert ended == ["room"]


def test_a_network_that_is_full_itself_loses_its_own() -> None:
    connections = Connections(ConnectionLimits(most=4))
    greedy = opened(connections, "10.0.0.1", 3)
    (other,) = opened(connections, "10.0.0.2", 1)
    greedy += opened(connections, "10.0.0.1", 3)
    assert [one.aborted for one in greedy] == [True, True, True, False, False, False]
    assert not other.aborted


def test_an_ipv6_site_is_one_network_however_many_it_has() -> None:
    connections = Connections(ConnectionLimits(most=6, per_address=3))
    greedy = [opened(connections, f"2001:db8:0:{n}::1", 1)[0] for n in range(4)]
    others = opened(connections, "10.0.0.2", 2)
    opened(connections, "10.0.0.3", 1)
    assert [one.aborted for one in greedy] == [True, False, False, False]
    assert not any(one.aborted for one in others)


def test_a_site_may_have_what_four_of_its_networks_may() -> None:
    connections = Connections(ConnectionLimits(per_address=2))
    for number in range(4):
        opened(connections, f"2001:db8:0:{number}::1", 2)
        with pytest.raises(RateLimited):
            opened(connections, f"2001:db8:0:{number}:ffff::1", 1)
    with pytest.raises(RateLimited, match="you have 8 connections open"):
        opened(connections, "2001:db8:0:4::1", 1)
    opened(connections, "2001:db8:1::1", 1)


def test_connections_in_use_are_kept() -> None:
    connections = Connections(ConnectionLimits(most=3))
    session, keyed, idle = opened(connections, "10.0.0.1", 3)
    with serving(connections, keyed):
        shown_key()
    with serving(connections, session), in_use():
        opened(connections, "10.0.0.2", 1)
        assert [one.aborted for one in (session, keyed, idle)] == [False, False, True]
        (newer,) = opened(connections, "10.0.0.3", 1)
        with serving(connections, newer), in_use(), pytest.raises(Overloaded) as refused:
            opened(connections, "10.0.0.4", 1)
    assert str(refused.value) == "all 3 connections are in use"
    opened(connections, "10.0.0.4", 1)  # its session is over
    connections.shown_key(keyed, shown=False)  # its request is answered
    opened(connections, "10.0.0.5", 4)
    assert session.aborted and keyed.aborted


def test_each_transport_has_reserved_room() -> None:
    limits = ConnectionLimits(most=32, transports=("http", "grpc", "wyoming"))
    connections = Connections(limits)
    busy = opened(connections, "10.0.0.1", 28)  # two less for each of the others
    for connection in busy:
        connections.used(connection, 1)
    with pytest.raises(Overloaded):
        opened(connections, "10.0.0.1", 1)
    opened(connections, "10.0.0.2", 2, "grpc")
    with pytest.raises(Overloaded):
        opened(connections, "10.0.0.3", 1)
    wyoming = opened(connections, "10.0.0.2", 3, "wyoming")
    assert [one.aborted for one in wyoming] == [True, False, False]  # it has only its own
    assert not any(one.aborted for one in busy)


def test_new_connections_of_a_network_have_a_rate() -> None:
    clock = Clock()
    connections = Connections(ConnectionLimits(per_second=2.0), clock)
    opened(connections, "10.0.0.1", 4)
    with pytest.raises(RateLimited, match="2 connections per second"):
        opened(connections, "10.0.0.1", 1)
    opened(connections, "10.0.0.2", 1)
    clock.now += 0.5
    opened(connections, "10.0.0.1", 1)


def test_a_network_that_floods_waits_for_its_next_connection() -> None:
    clock, ended = Clock(), list[str]()
    connections = Connections(ConnectionLimits(per_second=2.0), clock, ended.append)
    (flooding,) = opened(connections, "10.0.0.1", 1)
    connections.flooded(flooding)
    clock.now += 3.0
    with pytest.raises(RateLimited):
        opened(connections, "10.0.0.1", 1)
    clock.now += 3.0
    opened(connections, "10.0.0.1", 1)
    assert ended == ["flood"]


def test_requests_without_a_key_have_a_rate_for_each_network() -> None:
    clock = Clock()
    connections = Connections(ConnectionLimits(per_second=2.0), clock)
    one, another = opened(connections, "10.0.0.1", 2)
    for _ in range(4):
        connections.requested(one)
        assert connections.must_wait(one) == 0.0
    connections.requested(one)
    assert connections.must_wait(one) == 0.5
    assert connections.must_wait(another) == 0.5  # the network's, not the connection's
    connections.requested(another)
    assert connections.must_wait(one) == 1.0
    connections.shown_key(another, shown=True)
    assert connections.must_wait(one) == 0.5  # requests with a key do not count
    clock.now += 0.5
    assert connections.must_wait(one) == 0.0
    (stranger,) = opened(connections, "10.0.0.2", 1)
    assert connections.must_wait(stranger) == 0.0


def test_nothing_is_left_of_connections_that_closed() -> None:
    connections = Connections(ConnectionLimits(per_address=3))
    for connection in opened(connections, "2001:db8::1", 3):
        connections.holds(connection, 100)
        connections.used(connection, 1)
        connections.used(connection, -1)
        connections.leave(connection)
        connections.leave(connection)
        connections.used(connection, 1)  # a session that ends later
    assert not connections._spare and not +connections._used and not connections.held.total
    opened(connections, "2001:db8::1", 3)
