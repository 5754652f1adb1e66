"""The pools that a planner sizes, a row each, with all differences between them.

Every session needs the required pools. Optional pools serve annotations: text does not wait for
them, and they may be empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from auricle.config.common import CommonSettings, PoolLimits
from auricle.core.errors import Overloaded
from auricle.load.reports import ENCODE_WORK, PD_WORK, STALE_INTERVALS, PoolKind, StartingPools

# The unit of demand for an optional pool: seconds of speech, per second.
ASKED_WORK = ("speech_seconds",)


@dataclass(frozen=True)
class SizedPool:
    """A pool: its `kind` is the Dynamo component, `component` the section of its settings.

    `limits` is the key of its bounds in section `Planner`, `units` the units of its profile's
    costs. `annotation` names the addition of an optional pool to text, empty for a required one. An
    optional pool exists if the key `checkpoint` in section `Common` is set; if it `encodes` for the
    aligner, the aligner must also differ from the model, as the same checkpoint shares the encode
    workers. `metrics` is the kind of another pool if its workers have that pool's metrics, with the
    label `pool`.
    """

    kind: PoolKind
    component: str
    limits: str
    units: tuple[str, ...]
    annotation: str = ""
    checkpoint: str = ""
    metrics: str = ""
    encodes: bool = False

    def there(self, settings: CommonSettings) -> bool:
        """Whether the pool exists with these settings."""
        if self.checkpoint and getattr(settings, self.checkpoint) is None:
            return False
        return not (self.encodes and settings.aligns_itself)

    def limits_of(self, planner: Any) -> PoolLimits:
        """Return its bounds in the settings of section `Planner`."""
        found: PoolLimits = getattr(planner, self.limits)
        return found

    @property
    def metrics_prefix(self) -> str:
        """The prefix of its workers' metrics, after `auricle_`."""
        return self.metrics or self.kind


# The annotations that optional pools add to text.
WORDS, SPEAKERS, TRANSLATIONS = "words", "speakers", "translations"

_ROWS = (
    SizedPool("encode_worker", "EncodeWorker", "encode", ENCODE_WORK),
    SizedPool("pd_worker", "PdWorker", "pd", PD_WORK),
    SizedPool(
        *("align_encode_worker", "AlignEncodeWorker", "align_encode", ASKED_WORK),
        *(WORDS, "align_model", "encode_worker"),
        encodes=True,
    ),
    SizedPool("align_worker", "AlignWorker", "align", ASKED_WORK, WORDS, "align_model"),
    SizedPool("diarize_worker", "DiarizeWorker", "diarize", ASKED_WORK, SPEAKERS, "speaker_model"),
    SizedPool(
        *("translate_worker", "TranslateWorker", "translate", ASKED_WORK),
        *(TRANSLATIONS, "translate_model"),
    ),
)
POOLS: Mapping[str, SizedPool] = {pool.kind: pool for pool in _ROWS}
REQUIRED_POOLS = tuple(pool for pool in _ROWS if not pool.annotation)
OPTIONAL_POOLS = tuple(pool for pool in _ROWS if pool.annotation)


_BACKGROUND_SHARE = 2  # background requests may use one of this number of places


def check_place(in_use: int, places: int, *, background: bool, kept: int = 0) -> None:
    """Raise Overloaded unless a worker with `in_use` requests has a place for one more.

    Background requests may use half of the `places`, others all but `kept`. Pure.
    """
    room = max(1, places // _BACKGROUND_SHARE) if background else places - kept
    if in_use >= room:
        raise Overloaded(f"{in_use} of {places} places are in use; try again")


class Starting:
    """The empty pools that planners are starting, from their latest message until it is stale.

    No I/O but the clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self._kinds: frozenset[PoolKind] = frozenset()

    def update(self, message: StartingPools) -> None:
        """Store a planner's message."""
        self._until = self._clock() + STALE_INTERVALS * message.seconds
        self._kinds = frozenset(message.kinds)

    def __contains__(self, kind: PoolKind) -> bool:
        return kind in self._kinds and self._clock() < self._until
