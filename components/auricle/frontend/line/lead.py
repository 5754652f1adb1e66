"""How far a client's audio is ahead of real time. No I/O but the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

# A client that sends this many seconds of speech per second, or fewer, is never ahead for long.
# More than 1, so that one which had to send late is soon taken for live again.
_PACE = 1.25


class Lead:
    """Measures one client's lead: the speech it has sent beyond `_PACE` times real time.

    A session that is ahead of real time waits for nobody's voice. It is served as it comes, but
    its work yields to that of live sessions, and its waiting says nothing about load.
    """

    def __init__(
        self, allowance_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """A session is ahead when its lead exceeds `allowance_seconds`; `clock` gives seconds."""
        self._allowance = allowance_seconds
        self._clock = clock
        self._at = clock()
        self._seconds = 0.0

    def heard(self, seconds: float) -> bool:
        """Count `seconds` of speech; return whether the session is ahead of real time."""
        now = self._clock()
        self._seconds = max(0.0, self._seconds - _PACE * (now - self._at)) + seconds
        self._at = now
        return self._seconds > self._allowance
