"""Dynamic time warping: when each row of a matrix is passed on the cheapest way through it. No I/O.

As in openai/whisper (`whisper/timing.py`), which finds the times of words with it: rows are tokens,
columns moments, and the way leads from the first of both to the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def first_columns(costs: npt.NDArray[np.float64]) -> list[int]:
    """Return the first column of each row on the cheapest way through `costs`, all finite.

    A step leads to the next row, the next column, or both.
    """
    rows, columns = costs.shape
    entered = np.empty((rows, columns), bool)  # from the row above
    straight = np.empty((rows, columns), bool)  # in the same column
    above = np.full(columns + 1, np.inf)
    above[0] = 0.0
    for row in range(rows):
        until = np.cumsum(costs[row])
        own = np.full(columns + 1, np.inf)
        # A row is entered somewhere and followed from there on.
        best = np.minimum.accumulate(np.minimum(above[:-1], above[1:]) - (until - costs[row]))
        own[1:] = until + best
        diagonal, up, left = above[:-1], above[1:], own[:-1]
        straight[row] = (up < diagonal) & (up < left)
        entered[row] = straight[row] | ((diagonal < up) & (diagonal < left))
        above = own
    return _traced(entered, straight)


def _traced(entered: npt.NDArray[np.bool_], straight: npt.NDArray[np.bool_]) -> list[int]:
    found = []
    last = entered.shape[1] - 1
    for row in reversed(range(len(entered))):
        first = int(np.flatnonzero(entered[row, : last + 1])[-1])
        found.append(first)
        last = first if straight[row, first] else first - 1
    return found[::-1]
