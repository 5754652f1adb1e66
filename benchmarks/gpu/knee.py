"""The search for the most streams that pools carry. No I/O."""

from __future__ import annotations

from collections.abc import Callable


def most_carried(
    carried: Callable[[int], bool],
    first: int,
    *,
    most: int,
    resolution: float,
    time_left: Callable[[], bool] = lambda: True,
) -> int:
    """Return the largest number for which `carried` was true; 0 if it never was.

    Doubles from `first` until a number is not carried, or halves until one is, and then divides
    what is between them up to a relative `resolution`. Asks for none above `most`, and for no
    further one once there is no `time_left`.
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
            number = min(most, 2 * low)
        elif low == 0:
            number = high // 2
        else:
            number = (low + high) // 2
    return low
