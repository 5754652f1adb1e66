"""Logs every session that ends and, up to a rate limit, every client that is refused."""

from __future__ import annotations

import logging

from auricle.core.errors import AuricleError
from auricle.process.logs import at_most

log = logging.getLogger(__name__)
_REFUSALS = 10


def log_ended(
    kind: str, name: str, protocol: str, audio_seconds: float, outcome: str, reason: str = ""
) -> None:
    """Log the end of a `kind` (`session` or `recording`).

    `outcome` is `done`, `client_gone` or an error's code; `reason` is the error's message.
    """
    log.info(
        "%s %s ended: %s, %s, %.1f s of audio%s",
        *(kind, name, outcome, protocol, audio_seconds, f": {reason}" if reason else ""),
        extra={
            "session": name,
            "protocol": protocol,
            "audio_seconds": round(audio_seconds, 3),
            "outcome": outcome,
        },
    )


def log_refused(address: str, error: AuricleError) -> None:
    """Log that a client at `address` was refused with this error; a bounded number of lines."""
    extra = {"address": address, "outcome": error.code, **at_most(_REFUSALS)}
    log.info("client %s refused: %s", address, error, extra=extra)
