"""The message that reports an error instead of a reply."""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """An error of any component.

    `code` is an `AuricleError.code`, `keys` the windows or blocks it concerns, and
    `retry_after_seconds` when to retry.
    """

    code: str
    message: str
    keys: tuple[str, ...] = ()
    retry_after_seconds: float = 0.0
