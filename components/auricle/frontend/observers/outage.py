"""What the log says of an outage of NATS: its begin and its end, not each attempt."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError

from auricle.errors import AuricleError

log = logging.getLogger(__name__)
_EXPECTED = NatsError | AuricleError | OSError | TimeoutError


class Outage:
    """An outage of NATS, if there is one. Use it on one event loop."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._dropped = 0

    def failed(self, error: Exception, waiting: int) -> None:
        """An attempt to publish has failed; `waiting` messages are queued."""
        if self._since is not None:
            return
        self._since = asyncio.get_running_loop().time()
        log.warning(
            "NATS is unavailable (%s); transcripts are queued until it is there: %d",
            str(error) or type(error).__name__,
            waiting,
            exc_info=None if isinstance(error, _EXPECTED) else error,
        )

    def dropped(self) -> None:
        """A message was dropped because the queue was full."""
        self._dropped += 1
        if self._dropped == 1:
            log.warning("too many transcripts wait for NATS: the oldest are dropped")

    def over(self) -> None:
        """Everything that was queued is published."""
        if self._since is not None:
            seconds = asyncio.get_running_loop().time() - self._since
            said = "NATS is there again after %.0f s: transcripts are published, %d were dropped"
            log.info(said, seconds, self._dropped)
        self._since, self._dropped = None, 0
