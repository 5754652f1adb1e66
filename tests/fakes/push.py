"""Pieces of audio on their way to a processor."""

from __future__ import annotations

import numpy as np

from auricle.frontend.listening.pieces import Piece


def piece(start: int, count: int) -> Piece:
    return Piece(start, np.zeros(count, np.int16))
