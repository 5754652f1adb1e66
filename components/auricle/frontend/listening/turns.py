"""The turn model for all sessions of this frontend, off the event loop.

A session waits for each answer before it listens on, so it has one question at a time at most, and
there are never more than sessions. They wait in one queue, each for its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from auricle.audio.pcm import Int16
from auricle.audio.turn_model import SmartTurn
from auricle.errors import SettingsError
from auricle.tasks import within

# A question takes 60 ms of one core. A session that waits so long fails with `deadline_exceeded`:
# its audio could not be listened to in real time any more.
_DEADLINE_SECONDS = 30.0


class TurnModel(Protocol):
    """Knows whether a turn is over; implemented by `audio.turn_model.SmartTurn`."""

    def probability(self, pcm: Int16) -> float:
        """Return the probability (0 to 1) that the turn is over that ends with `pcm`, shape (n,).

        Called by several threads at a time. The same audio must give the same value, always.
        """
        ...


def turn_model(file: Path) -> TurnModel:
    """Load `Frontend.turn_model`. Raises SettingsError, saying what is wrong with it."""
    if not file.is_file():
        raise SettingsError(f"Frontend.turn_model {file} does not exist, or is no file")
    try:
        return SmartTurn(file)
    except ValueError as error:
        raise SettingsError(f"Frontend.turn_model: {error}") from None


class TurnDetector:
    """Asks the model, in threads of its own. Use it on one event loop."""

    def __init__(self, model: Callable[[], TurnModel], threads: int) -> None:
        """`model` makes the model; `load` calls it, in a thread."""
        self._new_model = model
        self._threads = ThreadPoolExecutor(threads, "turns")
        self._model: TurnModel | None = None

    async def load(self) -> None:
        """Load the model. Call this before `probability`. Raises what the model's maker does."""
        loop = asyncio.get_running_loop()
        self._model = await loop.run_in_executor(self._threads, self._new_model)

    async def probability(self, pcm: Int16) -> float:
        """Return the probability (0 to 1) that the turn is over that ends with `pcm`, shape (n,).

        Raises DeadlineExceeded if no thread has answered within 30 s.
        """
        if self._model is None:
            raise RuntimeError("load() comes before probability()")
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, self._model.probability, pcm)
        return await within(_DEADLINE_SECONDS, asked, "turn detection")

    def close(self) -> None:
        """Let no question begin any more. Those that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
