"""Whom a recording is charged to, and how much."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.types import Scope

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.doors.access.keys import ANYONE
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.recordings.transcriber import Heard, Segment, Whole


async def charged(
    outputs: AsyncGenerator[Heard | Segment | Whole, None],
    client: Client,
    reached: Callable[[float], None],
) -> AsyncGenerator[Segment | Whole, None]:
    """Pass on texts, and charge the client for audio when it is decoded, as for live sessions.

    Silence is charged too, and so is what was decoded of a recording that fails. A recording may
    overdraw the rate; the client's next one must wait. `reached(seconds)` is told how much of
    the recording has its text.
    """
    async with aclosing(outputs):
        async for output in outputs:
            match output:
                case Heard(seconds=seconds):
                    client.spend(seconds)
                    continue
                case Segment(end=end):
                    reached(end / SAMPLE_RATE)
                case Whole(seconds=seconds):
                    reached(seconds)
            yield output


def owner(client: Client, scope: Scope) -> str:
    """Return whom a recording takes turns for: its tenant, or without keys its address."""
    if client.key is not ANYONE:
        return client.tenant
    peer: tuple[str, int] | None = scope.get("client")
    return "unknown" if peer is None else peer[0]
