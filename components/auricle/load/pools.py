"""The pools that a planner sizes, a row each; what differs between them is here.

Pools on the path are needed by every session. Pools beside it serve what sessions may ask for
besides text (`asked`): text does not wait for them, and they may be empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from auricle.config.common import CommonSettings, PoolLimits
from auricle.core.errors import Overloaded
from auricle.load.reports import ENCODE_WORK, PD_WORK, STALE_INTERVALS, PoolKind, StartingPools

# The unit of what sessions ask of a pool beside the path: seconds of speech, per second.
ASKED_WORK = ("speech_seconds",)


@dataclass(frozen=True)
class SizedPool:
    """A pool: its `kind` is the Dynamo component, `component` the section of its settings.

    `limits` is the key of its bounds in section `Planner`, `units` what the costs of its profile
    are for. `asked` is what sessions ask it for, empty for a pool on the path; `checkpoint` the
    key in section `Common` without which there is no such pool; nor is there one that `encodes` for
    a checkpoint that is the model's, whose encode workers it shares. Where its workers are those of
    another pool, `metrics` is that pool's kind: they have its metrics, with the label `pool`.
    """

    kind: PoolKind
    component: str
    limits: str
    units: tuple[str, ...]
    asked: str = ""
    checkpoint: str = ""
    metrics: str = ""
    encodes: bool = False

    def there(self, settings: CommonSettings) -> bool:
        """Whether there is such a pool by these settings."""
        if self.checkpoint and getattr(settings, self.checkpoint) is None:
            return False
        return not (self.encodes and settings.aligns_itself)

    def limits_of(self, planner: Any) -> PoolLimits:
        """Return its bounds in the settings of section `Planner`."""
        found: PoolLimits = getattr(planner, self.limits)
        return found

    @property
    def metrics_prefix(self) -> str:
        """What its workers' metrics begin with, after `auricle_`."""
        return self.metrics or self.kind


_ROWS = (
    SizedPool("encode_worker", "EncodeWorker", "encode", ENCODE_WORK),
    SizedPool("pd_worker", "PdWorker", "pd", PD_WORK),
    SizedPool(
        *("align_encode_worker", "AlignEncodeWorker", "align_encode", ASKED_WORK),
        *("words", "align_model", "encode_worker"),
        encodes=True,
    ),
    SizedPool("align_worker", "AlignWorker", "align", ASKED_WORK, "words", "align_model"),
    SizedPool(
        "diarize_worker", "DiarizeWorker", "diarize", ASKED_WORK, "speakers", "speaker_model"
    ),
    SizedPool(
        *("translate_worker", "TranslateWorker", "translate", ASKED_WORK),
        *("translations", "translate_model"),
    ),
)
POOLS: Mapping[str, SizedPool] = {pool.kind: pool for pool in _ROWS}
PATH = tuple(pool for pool in _ROWS if not pool.asked)
BESIDE = tuple(pool for pool in _ROWS if pool.asked)


# The places of a worker: how many requests it works on at a time. Pure.

_BACKGROUND_SHARE = 2  # background requests may use one place in so many


def check_place(in_use: int, places: int, *, background: bool, kept: int = 0) -> None:
    """Raise Overloaded unless there is a place for a request while others use `in_use` of them.

    Background requests find one while less than half are in use, others while all but `kept` are
    not.
    """
    room = max(1, places // _BACKGROUND_SHARE) if background else places - kept
    if in_use >= room:
        raise Overloaded(f"{in_use} of {places} places are in use; try again")


# Which pools are empty and about to be started, as planners say. No I/O but the clock.


class Starting:
    """Keeps the latest that was heard of any planner; what is old does not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self._kinds: frozenset[PoolKind] = frozenset()

    def heard(self, said: StartingPools) -> None:
        """Store what a planner published."""
        self._until = self._clock() + STALE_INTERVALS * said.seconds
        self._kinds = frozenset(said.kinds)

    def __contains__(self, kind: PoolKind) -> bool:
        return kind in self._kinds and self._clock() < self._until
