"""Who of the clients that were refused comes first: by priority, then who has less. Pure.

A place that becomes free goes to whoever asks next, and a client that floods asks most often. So
the next place is kept for a moment for one that has a right to it, and was told to come then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

# A client has more than its share if it has this many times what another one would have. Between
# equals to within that, the order of arrival decides: keeping places empty costs what they carry.
_GREEDY = 2
# A place is kept until somewhat after the retry time that its client was told, and no more of
# them at a time than a server can spare.
KEPT_SECONDS = 4.0
_MOST_KEPT = 8


@dataclass(frozen=True)
class Party:
    """Who shares the server with others: a tenant or an address, and its key's priority."""

    client: str
    priority: int = 0


class FairShares:
    """The live sessions of each party, and the places that are kept for those with too few."""

    def __init__(self) -> None:
        self._has: Counter[Party] = Counter()
        self._kept: dict[Party, float] = {}  # until when

    def begin(self, party: Party) -> None:
        """One more session of the party."""
        self._has[party] += 1

    def end(self, party: Party) -> None:
        """One session less."""
        self._has[party] -= 1
        if not self._has[party]:
            del self._has[party]

    def keep(self, party: Party, now: float) -> bool:
        """Keep the next place for a party that was refused; return whether that is its right."""
        self._forget(now)
        if not any(self._first(party, other) for other in self._has):
            return False
        if party not in self._kept and len(self._kept) >= _MOST_KEPT:
            return False
        self._kept[party] = now + KEPT_SECONDS
        return True

    def taken(self, party: Party) -> None:
        """The party was let in."""
        self._kept.pop(party, None)

    def kept_from(self, party: Party, now: float) -> int:
        """Return how many places are kept for others that come before the party."""
        self._forget(now)
        return sum(self._first(other, party) for other in self._kept)

    def _first(self, one: Party, other: Party) -> bool:
        if one.priority != other.priority:
            return one.priority > other.priority
        return self._has[other] >= _GREEDY * (self._has[one] + 1)

    def _forget(self, now: float) -> None:
        self._kept = {party: until for party, until in self._kept.items() if until > now}
