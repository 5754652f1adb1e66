"""Where in a segment there is speech, and whose: windows' voices become turns. No I/O.

Times are in filter-bank frames of 10 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Loudness = npt.NDArray[np.float32]
Active = npt.NDArray[np.bool_]

_BELOW = 6.9  # natural logarithms of power, 30 dB: speech is not quieter against its loudest
_ABOVE_NOISE = 0.25  # of the range from the quietest to the loudest
_QUIETEST = -9.0  # speech is not below this: 16-bit samples of 1 or 2 are
_CLOSED = 30  # frames: shorter silence belongs to what is said
_DROPPED = 10  # frames: shorter sounds are none
_SEARCH = 50  # frames on either side in which a change of speakers has its pause
_SMOOTH = 5


def active(loudness: Loudness) -> Active:
    """Return which frames are speech, given the logarithm of each frame's power."""
    loudest, quietest = np.percentile(loudness, (95, 5))
    least = max(loudest - _BELOW, quietest + _ABOVE_NOISE * (loudest - quietest), _QUIETEST)
    found: Active = np.asarray(loudness >= least)
    for start, end in runs(~found):
        if end - start < _CLOSED and start > 0 and end < len(found):
            found[start:end] = True
    for start, end in runs(found):
        if end - start < _DROPPED:
            found[start:end] = False
    return found


def runs(marked: Active) -> list[tuple[int, int]]:
    """Return begin and end of each run of marked frames."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], marked.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def frame_labels(
    centres: Sequence[int], labels: Sequence[int], loudness: Loudness
) -> npt.NDArray[np.intp]:
    """Return the voice of each frame from that of windows with such centres, ascending.

    It changes at the quietest point near the middle between two windows of different voices.
    """
    found = np.full(len(loudness), labels[0], dtype=np.intp)
    smooth = np.convolve(loudness, np.ones(_SMOOTH) / _SMOOTH, "same")
    before = 0
    for (one, left), (other, right) in pairwise(zip(centres, labels, strict=True)):
        if left != right:
            middle = (one + other) // 2
            low = max(before, middle - _SEARCH)
            before = low + int(np.argmin(smooth[low : min(len(smooth), middle + _SEARCH)]))
            found[before:] = right
    return found


def turns_of(labels: npt.NDArray[np.intp], speech: Active) -> list[tuple[int, int, int]]:
    """Return (voice, begin, end) of each turn; silence within a turn of one voice ends it."""
    found = []
    for start, end in runs(speech):
        changes = np.flatnonzero(np.diff(labels[start:end])) + start + 1
        edges = [start, *(int(at) for at in changes), end]
        found += [(int(labels[a]), a, b) for a, b in pairwise(edges)]
    return found
