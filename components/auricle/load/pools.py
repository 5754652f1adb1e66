"""The pools that a planner sizes, a row each; what differs between them is here.

Pools on the path are needed by every session. Pools beside it serve what sessions may ask for
besides text (`asked`): text does not wait for them, and they may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auricle.common_settings import CommonSettings
from auricle.load.reports import ENCODE_WORK, PD_WORK, PoolKind
from auricle.replicas import PoolLimits

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
