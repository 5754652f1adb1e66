"""Acoustic surroundings of a speaker: the room and the transmission line."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

from models.training.augment import codecs, rooms

Samples = npt.NDArray[np.float32]
_IN_ROOM, _ON_LINE = 0.5, 0.4
_MOST_ROOMS = 200


class Surroundings:
    """Random rooms and lines; the seed fixes the sequence. Some speech gets neither."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._rooms: list[Samples] = []

    def room(self, samples: Samples) -> Samples:
        """Return the samples as heard in a random room, or unchanged."""
        if self._dice.random() >= _IN_ROOM:
            return samples
        if len(self._rooms) < _MOST_ROOMS:
            self._rooms.append(rooms.drawn(self._dice))
        return rooms.placed(samples, self._dice.choice(self._rooms))

    def line(self, samples: Samples) -> Samples:
        """Return the samples after a random line, or unchanged."""
        if self._dice.random() >= _ON_LINE:
            return samples
        return codecs.drawn(np.clip(samples, -1, 1), self._dice)
