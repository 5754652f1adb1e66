"""Online clustering of a session's voices, segment by segment. No I/O.

A voice is the mean of its windows' vectors; the mean's length measures how alike they are. A
segment's windows are grouped first, then each group is matched to the most similar voice, relative
to the similarity within that voice: synthetic voices hardly vary, human ones do.

The state is a pure function of the previous state and the segment's vectors. It is rounded to bytes
after each segment, so that the result does not depend on whether the session moved.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage

from auricle.core.errors import BadRequest

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.intp]

_ALIKE = 0.6  # mean cosine of the windows of one group within a segment
_SHARE = 0.8  # of a voice's similarity to itself that a group of the same voice reaches
# Assumed similarity of windows to their voice, with the weight of this number of windows.
_TYPICAL, _TYPICAL_WINDOWS = 0.75, 4
_NEW_WINDOWS = 2  # minimum of a new voice; one may be two voices at once, or a cough
_MOST_WEIGHT = 400  # windows in a voice's mean: five minutes, then it drifts
_LEVELS = 127
_HEAD = struct.Struct("<8sB")
_VOICE = struct.Struct("<Hf")


@dataclass(frozen=True)
class Voice:
    """The mean of `windows` vectors of length 1."""

    mean: Vectors
    windows: int

    def resembles(self, mean: Vectors) -> float:
        """Return how well a group's mean fits: at least 1 for this voice."""
        own = float(np.linalg.norm(self.mean))
        cosine = float(self.mean @ mean) / max(own * float(np.linalg.norm(mean)), 1e-9)
        count = self.windows + _TYPICAL_WINDOWS
        likeness = (own * self.windows + _TYPICAL * _TYPICAL_WINDOWS) / count
        return cosine / (_SHARE * likeness)

    def with_windows(self, vectors: Vectors) -> Voice:
        weight = min(self.windows, _MOST_WEIGHT)
        total = weight + len(vectors)
        return Voice((self.mean * weight + vectors.sum(0)) / total, min(total, _MOST_WEIGHT))


def assign_voices(
    voices: tuple[Voice, ...], vectors: Vectors, most: int
) -> tuple[Labels, tuple[Voice, ...]]:
    """Return the index of the voice of each window, and the voices after the segment.

    `vectors` are of length 1, (n, width). With `most` voices, a group that resembles none of them
    is assigned to the nearest.
    """
    labels = np.zeros(len(vectors), dtype=np.intp)
    known = list(voices)
    for rows in groups(vectors):
        group = vectors[rows]
        fits = [voice.resembles(group.mean(0)) for voice in known]
        best = int(np.argmax(fits)) if fits else -1
        fits_one = bool(fits) and fits[best] >= 1
        if not fits_one and (not fits or (len(rows) >= _NEW_WINDOWS and len(known) < most)):
            best = len(known)
            known.append(Voice(group.mean(0), len(rows)))
        elif fits_one:  # a group that resembles no voice must not move one
            known[best] = known[best].with_windows(group)
        labels[rows] = best
    return _in_order(labels, known, len(voices))


def _in_order(labels: Labels, known: list[Voice], before: int) -> tuple[Labels, tuple[Voice, ...]]:
    """Order the voices after the first `before` by their first windows.

    Groups are matched by size, so the first new voice may be the last to speak.
    """
    new = sorted(range(before, len(known)), key=labels.tolist().index)
    order = [*range(before), *new]
    places = np.argsort(order)
    return places[labels], tuple(known[at] for at in order)


def groups(vectors: Vectors) -> list[Labels]:
    """Return groups of similar windows, as indices; the largest first."""
    if len(vectors) < 2:
        return [np.arange(len(vectors))] if len(vectors) else []
    tree = linkage(vectors, "average", metric="cosine")
    marks = fcluster(tree, 1 - _ALIKE, "distance")
    found = [np.flatnonzero(marks == mark) for mark in np.unique(marks)]
    return sorted(found, key=lambda rows: (-len(rows), int(rows[0])))


def to_bytes(voices: tuple[Voice, ...], model: bytes) -> bytes:
    """Return the state; `model` are 8 bytes that identify the model. Inverse of `from_bytes`."""
    parts = [_HEAD.pack(model, len(voices))]
    for voice in voices:
        scale = max(float(np.abs(voice.mean).max()), 1e-9) / _LEVELS
        parts.append(_VOICE.pack(voice.windows, scale))
        parts.append(np.round(voice.mean / scale).astype(np.int8).tobytes())
    return b"".join(parts)


def from_bytes(state: bytes, model: bytes, width: int) -> tuple[Voice, ...]:
    """Return the voices of a state, which may be empty.

    Raises BadRequest for another model's state, and for a truncated one.
    """
    if not state:
        return ()
    size = _VOICE.size + width
    if len(state) < _HEAD.size or state[:8] != model:
        raise BadRequest("the session's voices belong to another speaker model")
    _, count = _HEAD.unpack_from(state)
    if len(state) != _HEAD.size + count * size:
        raise BadRequest(f"a state of {count} voices has {len(state)} bytes")
    voices = []
    for at in range(_HEAD.size, len(state), size):
        windows, scale = _VOICE.unpack_from(state, at)
        whole = np.frombuffer(state, np.int8, width, at + _VOICE.size)
        voices.append(Voice(whole.astype(np.float32) * np.float32(scale), windows))
    return tuple(voices)


# Speech activity and turns. Times are in filter-bank frames of 10 ms.

Loudness = npt.NDArray[np.float32]
Active = npt.NDArray[np.bool_]

_BELOW = 6.9  # natural logarithms of power, 30 dB: range of speech below its maximum
_ABOVE_NOISE = 0.25  # of the range from the quietest to the loudest
_QUIETEST = -9.0  # minimum of speech; 16-bit samples of 1 or 2 are below it
_CLOSED = 30  # frames: shorter silence counts as speech
_DROPPED = 10  # frames: shorter sounds count as silence
_SEARCH = 50  # frames on either side searched for the pause of a speaker change
_SMOOTH = 5


def active(loudness: Loudness) -> Active:
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
    edges = np.flatnonzero(np.diff(np.concatenate(([0], marked.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def frame_labels(
    centres: Sequence[int], labels: Sequence[int], loudness: Loudness
) -> npt.NDArray[np.intp]:
    """Return the voice of each frame, given the windows' ascending centres and their voices.

    The voice changes at the quietest frame near the middle between two windows.
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
    """Return (voice, begin, end) of each turn; silence ends a turn."""
    found = []
    for start, end in runs(speech):
        changes = np.flatnonzero(np.diff(labels[start:end])) + start + 1
        edges = [start, *(int(at) for at in changes), end]
        found += [(int(labels[a]), a, b) for a, b in pairwise(edges)]
    return found
