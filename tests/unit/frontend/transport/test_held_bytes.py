"""The bytes that are held for requests which were not admitted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from auricle.core.errors import AuricleError, Overloaded, RateLimited
from auricle.frontend.transport.held_bytes import HeldBytes, RequestBytes

pytestmark = pytest.mark.unit


class Requests:
    """Requests of any networks, which note how they were ended."""

    def __init__(self, most: int) -> None:
        self.held = HeldBytes(most)
        self.ended: list[tuple[str, AuricleError]] = []

    def of(self, *networks: str) -> RequestBytes:
        return self.held.of(networks, self._end(networks[0] if networks else "proxy"))

    def _end(self, name: str) -> Callable[[AuricleError], None]:
        return lambda error: self.ended.append((name, error))


def test_one_address_holds_an_eighth_however_many_requests_it_has() -> None:
    requests = Requests(800)
    held = [requests.of("1.1.1.1") for _ in range(3)]
    held[0].set(60)
    held[1].set(40)
    with pytest.raises(RateLimited, match="may have 100 bytes together"):
        held[2].set(1)
    assert requests.held.total == 100
    held[0].close()  # admitted, or ended
    held[2].set(60)
    requests.of("2.2.2.2").set(100)
    assert requests.held.total == 200


def test_a_site_holds_a_quarter_whatever_its_networks() -> None:
    requests = Requests(800)
    for number in range(2):
        requests.of(f"2001:db8:0:{number}::/64", "2001:db8::/48").set(100)
    with pytest.raises(RateLimited, match="may have 200 bytes together"):
        requests.of("2001:db8:0:9::/64", "2001:db8::/48").set(1)
    requests.of("2001:db8:1::/64", "2001:db8:1::/48").set(100)


def test_a_key_holds_a_quarter_whatever_its_addresses() -> None:
    requests = Requests(800)
    for number in range(2):
        request = requests.of(f"1.1.1.{number}")
        request.set(100)
        request.belongs_to("acme")
    third = requests.of("1.1.1.3")
    third.belongs_to("acme")
    with pytest.raises(RateLimited):
        third.set(1)
    requests.of("1.1.1.4").set(1)


def test_the_greediest_network_makes_room() -> None:
    requests = Requests(80)
    greedy = [requests.of(f"2001:db8:0:{n}::/64", "2001:db8::/48") for n in range(2)]
    greedy[0].set(4)
    greedy[1].set(8)  # its site has most
    for number in range(6):
        requests.of(f"1.1.1.{number}").set(10)
    requests.of("9.9.9.9").set(9)
    ((name, error),) = requests.ended
    assert name == "2001:db8:0:1::/64"
    assert isinstance(error, Overloaded)
    assert requests.held.total == 73


def test_the_greediest_network_gets_no_more_itself() -> None:
    requests = Requests(80)
    for number in range(8):
        requests.of(f"1.1.1.{number}").set(9)
    last = requests.of("9.9.9.9")
    last.set(8)
    with pytest.raises(Overloaded):
        last.set(10)
    assert not requests.ended
    with pytest.raises(Overloaded):  # of a proxy, which is in no network
        requests.of().set(81)


def test_nothing_is_left_of_requests_that_ended() -> None:
    requests = Requests(800)
    for number in range(3):
        request = requests.of(f"1.1.1.{number}")
        request.set(50)
        request.belongs_to("acme")
        request.set(20)
        request.close()
        request.close()
    assert requests.held.total == 0
    assert not requests.held._held and not requests.held._requests
