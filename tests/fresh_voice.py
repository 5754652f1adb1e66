"""espeak-ng's speech from a fresh process.

Its random generator cannot be reset by a call, so its output depends on its earlier output, and
thus on the tests that ran earlier in the process.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from models.training.espeak import Espeak, Speech


@cache
def said_first(voice: str, text: str) -> Speech:
    """Return the same samples each time: the first output of a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_said, voice, text).result()


def _said(voice: str, text: str) -> Speech:
    return Espeak().speak(text, voice, 150, 50, 50)
