"""Finds when a live client has stopped sending, so that this counts as silence.

Clients stop when their user mutes the microphone, or send only what their own voice activity
detection takes for speech. Without audio endpointing would not find the end of their speech.

A network that stalls in the middle of a word must not end the speech. So a client counts as silent
only once it has answered a ping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# A shorter time without audio may be the network's: two lost segments in a row delay TCP by 0.6 s
# and a round trip, and a change of the radio cell takes as long.
LEAST_SECONDS: Final = 1.0
# A client that sends packets or bursts of up to this length in real time never stalls: first passes
# the time that its audio takes. A client that sends more at once does not send in real time.
LEAD_SECONDS: Final = 5.0
# A reader that was busy for longer finds messages that came meanwhile.
_BUSY_SECONDS = 0.1
# A loop that is late runs its timers before it reads the data that arrived meanwhile.
_UNREAD_SECONDS = 0.001


class Reading:
    """The reader of one client's messages: while it is busy, the client may be waiting."""

    def __init__(self, before: Reading | None = None) -> None:
        """`before` reads the messages first, for this session and others."""
        self._before = before
        self._waits = False
        self._left_at = self._since = float("-inf")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The reader waits for the next message while the block runs."""
        now = _now()
        if now - self._left_at > _BUSY_SECONDS:
            self._since = now
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
            self._left_at = _now()

    @property
    def since(self) -> float | None:
        """Since when no message has waited, in the loop's time; None if one may wait now."""
        before = None if self._before is None else self._before.since
        if not self._waits or (self._before is not None and before is None):
            return None
        return self._since if before is None else max(self._since, before)


class StallTimer:
    """Calls `due` when the client of a channel has sent no audio for long enough.

    Call methods on the event loop. There is one timer at most, which runs about once a second
    while audio comes, and none while a stall would change nothing. There is one ping at most.
    """

    def __init__(
        self,
        needed: Callable[[], float | None],
        due: Callable[[], None],
        ping: Callable[[Callable[[], None]], None],
    ) -> None:
        """`needed` returns after how many seconds a stall changes something; None if it never does
        or that is not known yet. `ping` is `LiveSession.ping`."""
        self._needed = needed
        self._due = due
        self._ping = ping
        self._pinged = False  # the answer is to come
        self._reading: Reading | None = None
        self._covered = 0.0  # the loop's time up to which the client has sent its audio
        self._answered = float("-inf")  # the loop's time of the last answer to a ping
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, reading: Reading) -> None:
        """The audio comes from there, from now on."""
        self._reading = reading
        self.check_later()

    def heard(self, seconds: float) -> None:
        """Audio of this length has arrived."""
        now = _now()
        self._covered = min(max(self._covered, now) + seconds, now + LEAD_SECONDS)

    @property
    def stalled(self) -> float | None:
        """The length of the stall in seconds, as far as it is needed; None before that."""
        needed = self._needed()
        if needed is None:
            return None
        needed = max(needed, LEAST_SECONDS)
        return needed if self._silent_until(self._answered) >= needed else None

    def check_later(self) -> None:
        """Audio was processed, so that a stall may change something: let the timer run."""
        if self._timer is None and self._reading is not None:
            self._check_after(LEAST_SECONDS - self._silent_until(_now()))

    def close(self) -> None:
        """Cancel the timer; nothing is due any more."""
        self._reading = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _silent_until(self, until: float) -> float:
        """For how many seconds before `until` the client has sent no audio that it could have."""
        since = None if self._reading is None else self._reading.since
        return 0.0 if since is None else until - max(since, self._covered)

    def _check_after(self, seconds: float) -> None:
        seconds = min(max(seconds, _UNREAD_SECONDS), LEAST_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        needed = self._needed()
        if needed is None:
            return
        left = max(needed, LEAST_SECONDS) - self._silent_until(_now())
        if left > 0:
            self._check_after(left)
        elif self.stalled is not None:
            self._due()
        elif not self._pinged:
            self._pinged = True
            self._ping(self._is_answered)

    def _is_answered(self) -> None:
        self._pinged = False
        if self._reading is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        # Audio that came before the answer is read first.
        self._timer = asyncio.get_running_loop().call_later(_UNREAD_SECONDS, self._count, _now())

    def _count(self, answered: float) -> None:
        self._answered = answered
        self._check()


def _now() -> float:
    return asyncio.get_running_loop().time()
