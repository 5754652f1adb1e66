"""Clients that leave in the middle of an answer."""

from __future__ import annotations

import random

LAST_EVENT = 8


def leaving(rng: random.Random) -> tuple[str, dict[str, float | bool]]:
    """When the client of a streamed transcription goes: after part of its body, some time, or
    some events; `abrupt`: with a reset instead of an end."""
    what = rng.randrange(3)
    point = {"body": 1.0, "seconds": 0.0, "events": 0, "abrupt": rng.random() < 0.5}
    if what == 0:
        return "while sending", point | {"body": rng.random()}
    if what == 1:
        return "while waiting", point | {"seconds": rng.choice((0.0, 0.01, 0.05, 0.2, 0.5))}
    return "while reading", point | {"events": rng.randrange(1, LAST_EVENT)}
