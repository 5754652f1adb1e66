"""Training labels of each audio embedding of a clip, and of each `<timestamp>` after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from models.training.align.examples import Clip
from models.training.align.targets import frame_of, frame_seconds

# Class of embeddings without a label: espeak-ng does not report their word.
UNKNOWN = -100


class FrameLabels(NamedTuple):
    """Labels with one entry per embedding.

    `word` is the class of the word spoken there (0: none) and `before` the class of the last word
    that ended earlier. `begun` counts the words that have begun. `since` and `left` are the seconds
    since the word's start and to its end.
    """

    word: torch.Tensor
    before: torch.Tensor
    begun: torch.Tensor
    since: torch.Tensor
    left: torch.Tensor


class StampLabels(NamedTuple):
    """Labels with one entry per `<timestamp>`, as in `FrameLabels`."""

    word: torch.Tensor
    before: torch.Tensor
    begun: torch.Tensor


def frame_labels(clip: Clip, length: int, classes: Mapping[str, int]) -> FrameLabels:
    word = torch.zeros(length, dtype=torch.long)
    before = torch.zeros(length, dtype=torch.long)
    begun, since, left = torch.zeros(3, length).unbind()
    middle = torch.tensor([frame_seconds(frame) + 0.04 for frame in range(length)])
    last = 0.0
    for spoken in clip.said:
        start, end = spoken.span
        first = frame_of(end - 0.1 if start is None and end is not None else start or 0.0)
        begun[max(min(first, length - 1), 0) :] += 1
        if end is not None:
            inside = slice(frame_of(last if start is None else start), frame_of(end))
            word[inside] = UNKNOWN if start is None else classes[spoken.word]
            since[inside] = middle[inside] - (last if start is None else start)
            left[inside] = end - middle[inside]
            before[inside.stop :] = classes[spoken.word]
        last = last if end is None and start is None else end or start or last
    return FrameLabels(word, before, begun, since, left)


def stamp_labels(clip: Clip, classes: Mapping[str, int]) -> StampLabels:
    word = torch.tensor([classes[spoken.word] for spoken in clip.words])
    before = torch.cat([torch.zeros(1, dtype=torch.long), word[:-1]])
    begun = torch.arange(1.0, len(word) + 1)
    return StampLabels(*(some.repeat_interleave(2) for some in (word, before, begun)))
