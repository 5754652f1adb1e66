"""The wait for the end of a turn, by the turn model's result for a pause.

The model processes a pause once, `LOOK_MS` after speech has ended: it was trained on pauses of
about that length (as Pipecat uses it), and its result hardly changes later. Its probability becomes
the wait: none from `sure` on, and the longer, the less probable it is that the speaker is done.

The text of a pause may be wanted before the turn is over. Speech then ends sooner than the turn,
which continues if speech follows before the end of the wait.
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
from auricle.core.aio import with_timeout
from auricle.core.errors import SettingsError
from auricle.core.fair_slots import FairSlots

# The model runs at the first frame of voice activity (32 ms) at which a pause is this long.
LOOK_MS: Final = 200

Eagerness = Literal["low", "medium", "high", "auto"]


@dataclass(frozen=True)
class TurnWait:
    """The wait of one session: none from the probability `sure` on, `longest_ms` at probability 0.

    Both count from the end of speech, so a turn does not end before `LOOK_MS`, nor before
    `least_ms`. With a `sure` of 1 every turn ends after `longest_ms`. Speech ends with its turn,
    but after `speech_ms` at the latest, and at once from the probability `eager` on.
    """

    sure: float
    longest_ms: int
    least_ms: int = 0
    eager: float | None = None
    speech_ms: int | None = None

    def after(self, probability: float) -> int:
        """Return the silence in ms that ends a turn with this probability."""
        share = self._share(probability)
        if share >= 1.0:
            return self.least_ms
        return max(self.least_ms, LOOK_MS + round((self.longest_ms - LOOK_MS) * (1.0 - share)))

    def speech_after(self, probability: float) -> int:
        """Return the silence in ms that ends speech if its turn has this probability."""
        if self.may_be_over(probability):
            return 0
        turn_ms = self.after(probability)
        return turn_ms if self.speech_ms is None else min(turn_ms, self.speech_ms)

    def may_be_over(self, probability: float) -> bool:
        """Whether the probability is `eager`, but the turn is not over yet."""
        likely = self.eager is not None and probability >= self.eager
        return likely and self._share(probability) < 1.0

    def _share(self, probability: float) -> float:
        """Return the probability as a share of `sure`, from 0 to 1."""
        if self.sure >= 1.0:
            return 0.0
        return probability / self.sure if probability < self.sure else 1.0


# The silence that ends speech: a duration in ms, or the turn model's wait.
Silence = int | TurnWait


# By `Eagerness`. The longest waits are from OpenAI's `semantic_vad`, where auto is medium. Smart
# Turn's authors take a turn for complete at 0.5; the others lie symmetrically around it.
WAITS: Final[Mapping[str, TurnWait]] = {
    "low": TurnWait(0.7, 8_000),
    "medium": TurnWait(0.5, 4_000),
    "auto": TurnWait(0.5, 4_000),
    "high": TurnWait(0.3, 2_000),
}


# One run of the model takes 60 ms of one core. A session that waits for longer than this fails with
# `deadline_exceeded`, because it could not process its audio in real time any more.
_DEADLINE_SECONDS = 30.0
# Sessions of one client that wait; more could not be served within the deadline.
_MOST_WAITING = 10_000


class TurnModel(Protocol):
    """A model of turn ends, such as `audio.turn_model.SmartTurn`; tests have others."""

    def probability(self, pcm: Int16) -> float:
        """Return the probability (0 to 1) that the turn which ends with `pcm` (n,) is over.

        Called by several threads at a time. The same audio must always give the same value.
        """
        ...


def turn_model(file: Path) -> TurnModel:
    """Load `Frontend.turn_model`. Raises SettingsError if that is not possible."""
    if not file.is_file():
        raise SettingsError(f"Frontend.turn_model {file} does not exist or is not a file")
    try:
        return SmartTurn(file)
    except ValueError as error:
        raise SettingsError(f"Frontend.turn_model: {error}") from None


class TurnDetector:
    """Runs the turn model for all sessions of this frontend, off the event loop.

    A session waits for each result before it continues, so the queue has one entry of each session
    at most. Clients take turns, however many sessions each has. Use it on one event loop.
    """

    def __init__(self, model: Callable[[], TurnModel], threads: int) -> None:
        """`load` calls `model` in a thread."""
        self._new_model = model
        self._threads = ThreadPoolExecutor(threads, "turns")
        self._slots = FairSlots(threads, per_owner=threads, max_waiting=_MOST_WAITING)
        self._model: TurnModel | None = None

    async def load(self) -> None:
        """Load the model. Call this before `probability`. Raises the errors of `model`."""
        loop = asyncio.get_running_loop()
        self._model = await loop.run_in_executor(self._threads, self._new_model)

    async def probability(self, client: str, pcm: Int16) -> float:
        """Return the probability (0 to 1) that the turn which ends with `pcm` (n,) is over.

        `client` is whose session it is. Raises DeadlineExceeded after 30 s.
        """
        return await with_timeout(_DEADLINE_SECONDS, self._run(client, pcm), "turn detection")

    async def _run(self, client: str, pcm: Int16) -> float:
        if self._model is None:
            raise RuntimeError("load() comes before probability()")
        loop = asyncio.get_running_loop()
        async with self._slots.slot(client):
            return await loop.run_in_executor(self._threads, self._model.probability, pcm)

    def close(self) -> None:
        """Stop. Waiting calls are cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)
