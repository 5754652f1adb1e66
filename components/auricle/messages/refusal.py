"""What any component answers instead of a reply."""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Any component, instead of its reply. `code` is an `AuricleError.code`."""

    code: str
    message: str
    keys: tuple[str, ...] = ()
    retry_after_seconds: float = 0.0
