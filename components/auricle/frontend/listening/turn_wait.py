"""How long a pause may last before a turn is over, by what the turn model says of it. No I/O.

The model hears a pause once, `LOOK_MS` after speech has ended: it was trained on pauses of about
that length (Pipecat asks it then, too), and hardly says anything else of a longer one. What it
says is a probability, and this becomes the wait: nothing from `sure` on, and the longer the less
probable it is that the speaker is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

# The model is asked at the first frame of voice activity (32 ms) at which a pause is so long.
LOOK_MS: Final = 200

Eagerness = Literal["low", "medium", "high", "auto"]


@dataclass(frozen=True)
class TurnWait:
    """The wait of one session: none from the probability `sure` on, `longest_ms` at probability 0.

    Both count from the end of speech, so no turn ends before `LOOK_MS`.
    """

    sure: float
    longest_ms: int

    def after(self, probability: float) -> int:
        """Return the silence in ms that ends a turn which is over with this probability."""
        if probability >= self.sure:
            return 0
        return LOOK_MS + round((self.longest_ms - LOOK_MS) * (1.0 - probability / self.sure))


# By `Eagerness`. The longest waits are those of OpenAI's `semantic_vad`, where auto is medium. 0.5
# is where Smart Turn's authors take a turn for complete; the others lie symmetrically around it.
WAITS: Final[Mapping[str, TurnWait]] = {
    "low": TurnWait(0.7, 8_000),
    "medium": TurnWait(0.5, 4_000),
    "auto": TurnWait(0.5, 4_000),
    "high": TurnWait(0.3, 2_000),
}
