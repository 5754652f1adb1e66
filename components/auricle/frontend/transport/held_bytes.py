"""The bytes that are held for requests that were not admitted, of all transports. No I/O.

They cost their clients nothing, so they are bounded: of all clients, of a network and of a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from auricle.core.errors import AuricleError, Overloaded, RateLimited
from auricle.frontend.transport.addresses import Networks

# The divisors of all bytes that give the share of an IPv4 address or a /64, and of a /48 or a key.
_NETWORK, _WIDER = 8, 4


class HeldBytes:
    """At most `most` bytes at a time. Call it on one event loop.

    Beyond the share of a network or a key, the request that grows is refused. If all bytes are
    held, the network that holds most loses its largest request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._requests: dict[str, dict[RequestBytes, None]] = {}  # by their widest network
        self.total = 0

    def of(self, networks: Networks, end: Callable[[AuricleError], None]) -> RequestBytes:
        """Return the account of one request; `end` ends it in favour of another network's."""
        return RequestBytes(self, networks, end)

    def check(self, holding: RequestBytes, more: int) -> None:
        """Raise RateLimited or Overloaded unless a request may hold `more` bytes."""
        for place, name in enumerate(holding.owners):
            share = self._most // (_WIDER if place else _NETWORK)
            if self._held[name] + more > share:
                raise RateLimited(
                    f"your requests that were not admitted may have {share} bytes together; send "
                    "them one after the other",
                    5.0,
                )
        while self.total + more > self._most:
            self._take_from_greediest(holding, more)

    def count(self, holding: RequestBytes, more: int) -> None:
        """Count the bytes that a request holds more than before, or less."""
        self.total += more
        for name in holding.owners:
            self._held[name] += more
            if not self._held[name]:
                del self._held[name]
        if not holding.networks:
            return
        requests = self._requests.setdefault(holding.networks[-1], {})
        if holding.size:
            requests[holding] = None
        else:
            requests.pop(holding, None)
        if not requests:
            del self._requests[holding.networks[-1]]

    def _take_from_greediest(self, holding: RequestBytes, more: int) -> None:
        greediest = max(self._requests, key=self._held.__getitem__, default="")
        own = self._held[holding.networks[-1]] if holding.networks else 0
        if self._held[greediest] <= own + more:
            raise Overloaded("the server holds as many bytes of new requests as it may; try again")
        largest = max(self._requests[greediest], key=lambda request: request.size)
        largest.close()
        largest.end(Overloaded("this request was ended in favour of another client's; try again"))


class RequestBytes:
    """The bytes of one request, until it is admitted or has ended."""

    __slots__ = ("_bytes", "end", "networks", "owners", "size")

    def __init__(
        self, held: HeldBytes, networks: Networks, end: Callable[[AuricleError], None]
    ) -> None:
        self._bytes = held
        self.networks = networks
        self.owners: tuple[str, ...] = networks
        self.end = end
        self.size = 0

    def set(self, size: int) -> None:
        """The request holds `size` bytes now. Raises RateLimited or Overloaded if it may not."""
        more = size - self.size
        if more > 0:
            self._bytes.check(self, more)
        if more:
            self.size = size
            self._bytes.count(self, more)

    def belongs_to(self, tenant: str) -> None:
        """Count the request for a key, too. Raises RateLimited if that holds too much."""
        size = self.size
        self.close()
        self.owners = (*self.networks, f"key {tenant}")
        self.set(size)

    def close(self) -> None:
        """Nothing is held any more."""
        self.set(0)
