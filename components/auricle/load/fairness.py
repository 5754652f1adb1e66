"""How the places of live sessions are divided among clients. Pure; frontends and processors use it.

Other clients may take a place while its session is silent. A session with speech keeps its place,
so one client could still speak in all places for as long as it likes. Where several tenants have
keys, each may therefore hold only its share: all places but an eighth. An eighth is little for a
server with one busy tenant to leave unused, and enough for another one to begin. Beyond that,
silent places and free ones go to the client with fewer.
"""

from __future__ import annotations

from auricle.core.errors import Overloaded

# A session without speech for this long has a place that a client with fewer sessions may take.
SILENT_SECONDS = 30.0
_LEFT_TO_OTHERS = 1 / 8


def share_of(places: int) -> int:
    """Return how many of these places one of several tenants may hold.

    All but an eighth, at least one less than all, and at least one.
    """
    return max(1, places - max(1, int(places * _LEFT_TO_OTHERS)))


def slot_preempted() -> Overloaded:
    """Return the error of a session whose place went to another client."""
    return Overloaded(
        "this session's place went to a client with fewer sessions, because it had not begun or "
        f"had no speech for {SILENT_SECONDS:g} s; connect again when there is speech"
    )
