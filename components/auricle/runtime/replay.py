"""Tells new messages of a sender from repeated ones. No I/O; time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

# Messages of one sender to one receiver overtake each other by fewer than these.
_WINDOW = 4096
_MASK = (1 << _WINDOW) - 1


@dataclass
class _Sender:
    highest: int = -1
    seen: int = 0  # bit n: the message `highest - n` has been seen
    heard: float = 0.0


class ReplayGuard:
    """The message numbers seen of each sender; a sender numbers its messages upwards.

    A sender not heard of for `forget_seconds` is forgotten, so messages must be too old to be
    accepted by then. Not thread-safe.
    """

    def __init__(self, forget_seconds: float) -> None:
        self._forget = forget_seconds
        self._senders: dict[bytes, _Sender] = {}

    def __len__(self) -> int:
        return len(self._senders)

    def is_new(self, sender: bytes, number: int, now: float) -> bool:
        """Return whether the message is the first with this number; `now` is in seconds.

        A message that 4,095 later ones have overtaken counts as seen.
        """
        known = self._senders.get(sender)
        if known is None:
            known = self._remember(sender, now)
        known.heard = now
        behind = known.highest - number
        if behind < 0:
            known.seen = ((known.seen << min(-behind, _WINDOW)) | 1) & _MASK
            known.highest = number
            return True
        if behind >= _WINDOW or known.seen >> behind & 1:
            return False
        known.seen |= 1 << behind
        return True

    def _remember(self, sender: bytes, now: float) -> _Sender:
        gone = [name for name, one in self._senders.items() if one.heard < now - self._forget]
        for name in gone:
            del self._senders[name]
        return self._senders.setdefault(sender, _Sender())
