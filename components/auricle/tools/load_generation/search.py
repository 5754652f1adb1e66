"""Searches for the largest load that is carried. No I/O."""

from __future__ import annotations

from collections.abc import Callable


def most_carried(
    carried: Callable[[int], bool],
    first: int,
    *,
    most: int,
    resolution: float,
    growth: float = 2.0,
    time_left: Callable[[], bool] = lambda: True,
) -> int:
    """Return the largest number for which `carried` was true; 0 if it never was.

    Grows from `first` by the factor `growth` until a number is not carried, or shrinks until one
    is, and then bisects to a relative `resolution`, or to one. Tries no number above `most`, and
    stops once there is no `time_left`.
    """
    low, high, number = 0, most + 1, min(first, most)
    while time_left():
        if carried(number):
            low = number
        else:
            high = number
        if high - low <= max(1, int(resolution * low)):
            break
        if high > most:
            number = min(most, max(low + 1, round(low * growth)))
        elif low == 0:
            number = min(high - 1, max(1, round(high / growth)))
        else:
            number = (low + high) // 2
    return low
