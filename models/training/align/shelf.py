"""Clips with their embeddings, for training the text model with a frozen encoder.

Making a clip and encoding it costs about half as much as a step of the text model, so each clip is
used several times before it is dropped.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from models.training.align.examples import Clip

_KEPT = 4000
_MOST = 24  # clips at once
# A batch is drawn from one in this number of the kept clips, the nearest in length.
_ALIKE = 8


@dataclass(frozen=True)
class Heard:
    """`audio` is (embeddings, hidden); the clip's samples are not kept."""

    clip: Clip
    audio: torch.Tensor


class Shelf:
    """`make` returns new clips within a range of lengths (s); one batch in `reuse` is new."""

    def __init__(
        self,
        make: Callable[[tuple[float, float]], Sequence[Heard]],
        dice: random.Random,
        reuse: int,
    ) -> None:
        self._make, self._dice, self._reuse = make, dice, reuse
        self._kept: deque[Heard] = deque(maxlen=_KEPT)
        self._asked = 0

    def take(self, lengths: tuple[float, float], seconds: float, rate: float) -> list[Heard]:
        """Clips of similar length within `lengths` (s), together about `seconds`.

        `rate` is the number of embeddings per second.
        """
        self._asked += 1
        if self._asked % self._reuse == 1 or len(self._kept) < _MOST * self._reuse:
            fresh = list(self._make(lengths))
            self._kept.extend(fresh)
            return fresh
        target = math.exp(self._dice.uniform(*map(math.log, lengths))) * rate
        count = max(1, min(_MOST, round(seconds * rate / target)))
        near = sorted(self._kept, key=lambda heard: abs(math.log(len(heard.audio) / target)))
        return self._dice.sample(near[: count + len(near) // _ALIKE], count)
