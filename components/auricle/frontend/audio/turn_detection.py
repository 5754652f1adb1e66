"""How long a pause may last before a turn is over, by what the turn model says of it. No I/O.

The model hears a pause once, `LOOK_MS` after speech has ended: it was trained on pauses of about
that length (Pipecat asks it then, too), and hardly says anything else of a longer one. What it
says is a probability, and this becomes the wait: nothing from `sure` on, and the longer the less
probable it is that the speaker is done.

Of a pause that is waited in, the text may be wanted before the turn is over. Speech then ends
sooner than the turn, which goes on if somebody speaks before its own end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from auricle.audio.pcm import Int16
from auricle.audio.turn_model import SmartTurn
from auricle.core.aio import within
from auricle.core.errors import SettingsError

# The model is asked at the first frame of voice activity (32 ms) at which a pause is so long.
LOOK_MS: Final = 200

Eagerness = Literal["low", "medium", "high", "auto"]


@dataclass(frozen=True)
class TurnWait:
    """The wait of one session: none from the probability `sure` on, `longest_ms` at probability 0.

    Both count from the end of speech, so no turn ends before `LOOK_MS`, nor before `least_ms`. Of a
    `sure` of 1 there is no such probability: a turn ends after `longest_ms`. Speech ends with its
    turn, but after `speech_ms` at the latest, and at once if the turn is over with a probability
    from `eager` on.
    """

    sure: float
    longest_ms: int
    least_ms: int = 0
    eager: float | None = None
    speech_ms: int | None = None

    def after(self, probability: float) -> int:
        """Return the silence in ms that ends a turn which is over with this probability."""
        share = self._share(probability)
        if share >= 1.0:
            return self.least_ms
        return max(self.least_ms, LOOK_MS + round((self.longest_ms - LOOK_MS) * (1.0 - share)))

    def speech_after(self, probability: float) -> int:
        """Return the silence in ms that ends speech, whose turn is over with this probability."""
        if self.may_be_over(probability):
            return 0
        turn_ms = self.after(probability)
        return turn_ms if self.speech_ms is None else min(turn_ms, self.speech_ms)

    def may_be_over(self, probability: float) -> bool:
        """Whether one is `eager` to know of such a turn, which is waited for."""
        likely = self.eager is not None and probability >= self.eager
        return likely and self._share(probability) < 1.0

    def _share(self, probability: float) -> float:
        """Return how much that is, from 0 to 1, of what it takes to be sure."""
        if self.sure >= 1.0:
            return 0.0
        return probability / self.sure if probability < self.sure else 1.0


# How long a silence ends speech: so many ms, or as the turn model says.
Silence = int | TurnWait


# By `Eagerness`. The longest waits are those of OpenAI's `semantic_vad`, where auto is medium. 0.5
# is where Smart Turn's authors take a turn for complete; the others lie symmetrically around it.
WAITS: Final[Mapping[str, TurnWait]] = {
    "low": TurnWait(0.7, 8_000),
    "medium": TurnWait(0.5, 4_000),
    "auto": TurnWait(0.5, 4_000),
    "high": TurnWait(0.3, 2_000),
}


# The turn model for all sessions of this frontend, off the event loop.
#
# A session waits for each answer before it listens on, so it has one question at a time at most,
# and there are never more than sessions. They wait in one queue, each for its turn.

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
