"""The settings of CTranslate2's engine. No library is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.config.devices import ComputeType
from auricle.workers.pd.engine import EngineCapabilities


@dataclass(frozen=True)
class CTranslate2Options:
    """At most `max_requests` requests of up to `max_model_len` tokens wait or run.

    `threads` compute a batch of them, in `compute_type`.
    """

    compute_type: ComputeType
    threads: int
    max_model_len: int
    max_requests: int


def capabilities() -> EngineCapabilities:
    return EngineCapabilities(drafts=False, limited_reuse=False, logprobs=True, kv_events=False)
