"""Who gets one of an engine's places, and who runs first."""

from __future__ import annotations

from auricle.load.places import check_place

_FINALS_SHARE = 8  # one place in so many is kept for finals, because users wait for them
# An engine runs the lowest number first.
_FINAL, _PARTIAL, _BACKGROUND = 0, 1, 2


def admit(in_use: int, places: int, *, final: bool, background: bool) -> None:
    """Raise Overloaded unless there is a place for a request of this kind."""
    kept = 0 if final else max(1, places // _FINALS_SHARE)
    check_place(in_use, places, background=background, kept=kept)


def priority(*, final: bool, background: bool) -> int:
    """Return an engine's priority of a request."""
    if background:
        return _BACKGROUND
    return _FINAL if final else _PARTIAL
