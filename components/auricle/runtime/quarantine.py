"""Instances that a call could not reach. No I/O; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

# A dead worker's record stays in discovery for 11.6 s (file) to Common.etcd_lease_seconds. Calling
# it again costs milliseconds.
QUARANTINE_SECONDS = 12.0
_ASK_SECONDS = 1.0


@dataclass
class Quarantine:
    """Instances that are not to be called while others can be.

    If there are no others, they are asked whether they answer: a dead process is not to be waited
    for, but one that only lost its connections is to be called again at once.
    """

    _until: dict[int, float] = field(default_factory=dict)
    _asked: dict[int, float] = field(default_factory=dict)

    def add(self, instance: int, now: float) -> None:
        """A call has failed: leave the instance out for 12 s."""
        self._until[instance] = now + QUARANTINE_SECONDS

    def release(self, instance: int) -> None:
        """The instance has answered."""
        self._until.pop(instance, None)

    def free(self, instances: Iterable[int], now: float) -> list[int]:
        """Return those of `instances` that are not in quarantine."""
        self._until = {i: until for i, until in self._until.items() if until > now}
        return [i for i in instances if i not in self._until]

    def to_ask(self, instances: Iterable[int], now: float) -> list[int]:
        """Return those of `instances` in quarantine that nobody has asked in the last second.

        They count as asked: however many wait, one of them asks.
        """
        self._asked = {i: at for i, at in self._asked.items() if now - at < _ASK_SECONDS}
        due = [i for i in instances if i in self._until and i not in self._asked]
        self._asked |= dict.fromkeys(due, now)
        return due
