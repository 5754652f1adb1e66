"""Counts what clients did lately, so that one client alone is no crowd. Pure."""

from __future__ import annotations

import heapq
from collections import Counter

_MOST_EVENTS = 50_000


class Crowd:
    """Events that count until a given time. For others, a client has at most `share` of them.

    For itself it has all, up to `most`. Counting costs the same however many there are.
    """

    def __init__(self, share: int, most: int) -> None:
        self._share = share
        self._most = most
        self._events: list[tuple[float, str]] = []  # a heap: (until, client)
        self._of_client: Counter[str] = Counter()
        self._shared = 0  # the sum over clients of what each has for others

    def add(self, client: str, until: float) -> None:
        """Count an event of `client` until then."""
        if self._of_client[client] >= self._most or len(self._events) >= _MOST_EVENTS:
            return
        heapq.heappush(self._events, (until, client))
        self._of_client[client] += 1
        self._shared += self._of_client[client] <= self._share

    def size(self, now: float, client: str | None = None) -> int:
        """The number of events as `client` sees it, or somebody with none."""
        while self._events and self._events[0][0] <= now:
            self._end(heapq.heappop(self._events)[1])
        own = 0 if client is None else self._of_client[client]
        return self._shared + max(0, own - self._share)

    def _end(self, client: str) -> None:
        self._shared -= self._of_client[client] <= self._share
        self._of_client[client] -= 1
        if not self._of_client[client]:
            del self._of_client[client]
