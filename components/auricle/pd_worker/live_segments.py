"""Which segments a PD worker is decoding, as far as it can tell from requests."""

from __future__ import annotations

import time
from collections.abc import Callable

# A session without a decode for so long has ended or moved: a drain does not wait for it.
_FORGOTTEN_SECONDS = 15.0


class LiveSegments:
    """Counts open segments: one is open from its first partial to its final decode."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}  # time of the last partial, by session

    def decoded(self, session: str, *, final: bool) -> None:
        """Record that a decode of the session was answered."""
        if final:
            self._seen.pop(session, None)
        else:
            self._seen[session] = self._clock()

    def __len__(self) -> int:
        oldest = self._clock() - _FORGOTTEN_SECONDS
        self._seen = {s: at for s, at in self._seen.items() if at > oldest}
        return len(self._seen)
