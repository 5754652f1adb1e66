"""A speaker whose sessions follow one another, also after failures."""

from __future__ import annotations

import asyncio

import numpy as np

from auricle.core.errors import AuricleError
from auricle.tools.load_generation.speakers import Pools, Speech, speak
from benchmarks.gpu.measurements import Chunks, Measurements

_PAUSE_SECONDS = 0.5  # after a failure
# Answers of random weights name no language, and the text of an answer follows its name.
_LANGUAGE = "English"


async def speak_always(speech: Speech, pools: Pools, measured: Measurements, seed: int) -> None:
    """Speak until cancelled; a session that fails is noted and followed by another one."""
    chance = np.random.default_rng(seed)
    while True:
        chunks = Chunks(measured)
        try:
            await speak(speech, pools, chance, _LANGUAGE, chunks)
        except AuricleError as error:
            measured.failures.append(str(error))
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            chunks.over(asyncio.get_running_loop().time())
