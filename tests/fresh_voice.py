"""espeak-ng's speech as it is first in a process.

It draws from dice that no call sets back, so that what it says depends on what it said before, and
with that on the tests that ran before in the process.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from models.training.espeak import Espeak, Speech


@cache
def said_first(voice: str, text: str) -> Speech:
    """Return the same samples each time, those of a process that has said nothing yet."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_said, voice, text).result()


def _said(voice: str, text: str) -> Speech:
    return Espeak().speak(text, voice, 150, 50, 50)
