"""The places of a worker: how many requests it works on at a time. Pure."""

from __future__ import annotations

from auricle.errors import Overloaded

_BACKGROUND_SHARE = 2  # background requests may use one place in so many


def check_place(in_use: int, places: int, *, background: bool, kept: int = 0) -> None:
    """Raise Overloaded unless there is a place for a request while others use `in_use` of them.

    Background requests find one while less than half are in use, others while all but `kept` are
    not.
    """
    room = max(1, places // _BACKGROUND_SHARE) if background else places - kept
    if in_use >= room:
        raise Overloaded(f"{in_use} of {places} places are in use; try again")
