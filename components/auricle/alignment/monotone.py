"""Repairs the times that an aligner predicts, which need not rise. No I/O.

As in the published aligner: the longest run of times that does not fall is kept, and what is not
part of it is taken from its neighbours. There the run is found in a time that grows with the
square of the number of words; a recording's segment of five minutes has a thousand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

_SNAPPED = 2  # so many wrong times in a row take a neighbour's value; more are interpolated


def monotone(times: Sequence[int]) -> list[int]:
    """Return `times` as a sequence that never falls; times are in any unit, of integers."""
    kept = _longest_run(times)
    fixed = list(times)
    for before, after in zip([None, *kept], [*kept, None], strict=True):
        first = 0 if before is None else before + 1
        last = len(times) if after is None else after
        _fill(fixed, first, last, before, after)
    return fixed


def _longest_run(times: Sequence[int]) -> list[int]:
    """Return the indices of the longest subsequence that does not fall.

    Of several it is the one that the published quadratic search finds: it ends at the first
    possible index, and each of its members follows the first possible one.
    """
    # Of all times that end a run of one length, the later ones are smaller. Values are negated,
    # so that each list rises; `lasts` has the smallest of each, and rises too.
    values: list[list[int]] = []
    indices: list[list[int]] = []
    lasts: list[int] = []
    follows: list[int] = []
    for index, time in enumerate(times):
        length = bisect_right(lasts, time)
        if length == 0:
            follows.append(-1)
        else:
            first = bisect_left(values[length - 1], -time)
            follows.append(indices[length - 1][first])
        if length == len(lasts):
            lasts.append(time)
            values.append([])
            indices.append([])
        lasts[length] = time
        values[length].append(-time)
        indices[length].append(index)
    if not indices:
        return []
    run = [indices[-1][0]]
    while follows[run[-1]] >= 0:
        run.append(follows[run[-1]])
    return run[::-1]


def _fill(times: list[int], first: int, last: int, before: int | None, after: int | None) -> None:
    """Replace the wrong times [first, last) between the kept ones at `before` and `after`."""
    if first == last:
        return
    if before is None or after is None:
        kept = after if before is None else before
        assert kept is not None  # there is always one
        times[first:last] = [times[kept]] * (last - first)
        return
    left, right, count = times[before], times[after], last - first
    for at in range(first, last):
        if count > _SNAPPED:
            times[at] = int(left + (right - left) / (count + 1) * (at - before))
        else:
            times[at] = left if at - before <= after - at else right
