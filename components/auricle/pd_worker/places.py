"""Who gets one of a worker's places, and who runs first."""

from __future__ import annotations

_FINALS_SHARE = 8  # one place in so many is reserved for finals
_BACKGROUND_SHARE = 2  # background requests may use one place in so many
# An engine runs the lowest number first.
_FINAL, _PARTIAL, _BACKGROUND = 0, 1, 2


def room(places: int, *, final: bool, background: bool) -> int:
    """Return how many of the places may be in use for a request to be admitted.

    Finals may use all of them, because users wait for them.
    """
    if background:
        return max(1, places // _BACKGROUND_SHARE)
    return places if final else places - max(1, places // _FINALS_SHARE)


def priority(*, final: bool, background: bool) -> int:
    """Return an engine's priority of a request."""
    if background:
        return _BACKGROUND
    return _FINAL if final else _PARTIAL
