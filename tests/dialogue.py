"""Synthetic speech of two alternating voices: each bundled recording has one voice only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

from tests.fresh_voice import said_first

RATE = 16_000
TURNS = (
    ("en-us+f1", "the farmer sold seven red apples at the market"),
    ("en-us+m8", "my brother found nine green boats near the river"),
    ("en-us+f1", "we saw three black dogs in the garden"),
    ("en-us+m8", "the teacher has two blue books"),
)


# Only words that the demo model has.
ERRAND = (
    ("en-us+f1", "hello anna we need bread and cheese from the market"),
    ("en-us+m8", "the market is behind the old library near the river"),
    ("en-us+f1", "the bus comes at seven in the morning"),
    ("en-us+m8", "thank you anna and goodbye"),
)


def conversation(turns: Sequence[tuple[str, str]] = TURNS) -> npt.NDArray[np.int16]:
    """16 kHz samples, with a second of silence between the turns."""
    found = [np.zeros(RATE // 2, np.int16)]
    for voice, text in turns:
        speech = said_first(voice, text)
        samples = resample_poly(speech.samples.astype(np.float64), RATE, speech.rate)
        found += [samples.astype(np.int16), np.zeros(RATE, np.int16)]
    return np.concatenate(found)
