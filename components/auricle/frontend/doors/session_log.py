"""Logs every session that ends and, up to a rate limit, every client that is refused."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

log = logging.getLogger(__name__)
_LINES = 10
_PERIOD_SECONDS = 60.0


def log_ended(kind: str, name: str, protocol: str, audio_seconds: float, outcome: str) -> None:
    """Log the end of a `kind` (`session` or `recording`).

    `outcome` is `done`, `client_gone` or an error's code.
    """
    log.info(
        "%s %s ended: %s, %s, %.1f s of audio",
        *(kind, name, outcome, protocol, audio_seconds),
        extra={
            "session": name,
            "protocol": protocol,
            "audio_seconds": round(audio_seconds, 3),
            "outcome": outcome,
        },
    )


class RefusalLog:
    """Logs refusals, at most `lines` per period, then one line with the number of the others.

    Call it on one event loop.
    """

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object] | None = None,
        lines: int = _LINES,
        period_seconds: float = _PERIOD_SECONDS,
    ) -> None:
        """`later(seconds, call)` schedules a callback, by default on the running event loop."""
        self._later = later or (lambda s, call: asyncio.get_running_loop().call_later(s, call))
        self._lines = lines
        self._period_seconds = period_seconds
        self._shown = 0
        self._counted: Counter[str] = Counter()

    def refused(self, address: str, code: str, reason: str) -> None:
        """A client at `address` was refused with the error `code`, because of `reason`."""
        if self._shown == 0:
            self._later(self._period_seconds, self._period_over)
        if self._shown < self._lines:
            self._shown += 1
            extra = {"address": address, "outcome": code}
            log.info("client %s refused: %s", address, reason, extra=extra)
        else:
            self._counted[code] += 1

    def _period_over(self) -> None:
        counted, self._counted, self._shown = self._counted, Counter(), 0
        if counted:
            of_each = ", ".join(f"{number} {code}" for code, number in counted.most_common())
            log.info(
                "%d more clients refused within %g s: %s",
                *(counted.total(), self._period_seconds, of_each),
            )
