"""Which segments are being decoded here, as far as a PD worker can tell. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable

# A session that decodes this rarely is gone, or was moved: it is not waited for.
_FORGOTTEN_SECONDS = 15.0


class OpenSegments:
    """A segment is open from its first partial to its final."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}  # by session, its last partial

    def decoded(self, session: str, *, final: bool) -> None:
        """A decode of the session was answered."""
        if final:
            self._seen.pop(session, None)
        else:
            self._seen[session] = self._clock()

    def __len__(self) -> int:
        oldest = self._clock() - _FORGOTTEN_SECONDS
        self._seen = {s: at for s, at in self._seen.items() if at > oldest}
        return len(self._seen)
