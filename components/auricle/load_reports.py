"""What processes say of their own load, every few seconds, on Dynamo's event plane.

The planner and the processors' placement need nothing but these; the same numbers are
Prometheus metrics of each process.
"""

from __future__ import annotations

from typing import Literal

import msgspec

WorkerKind = Literal["encode_worker", "pd_worker"]


class WorkerLoad(msgspec.Struct, frozen=True, tag=True):
    """One encode or PD worker, over the last `seconds`.

    `work` is what was done a second, by unit (`ENCODE_WORK`, `PD_WORK`). `busy` is the share
    of time with anything to do; `response_seconds` and `queue_wait_seconds` are 95th
    percentiles, of a request until its reply and until work on it began; `slots_used` of
    `slots_total` requests were under way on average. `kv_usage` and `step_seconds` are
    vLLM's. A worker that is `draining` wants no new segments, and leaves when `held`
    (segments open here, or leases) is nought.
    """

    kind: WorkerKind
    instance: int
    seconds: float
    work: dict[str, float]
    busy: float
    requests_per_second: float
    refused_per_second: float
    response_seconds: float
    queue_wait_seconds: float
    slots_used: float
    slots_total: int
    kv_usage: float = 0.0
    step_seconds: float = 0.0
    draining: bool = False
    held: int = 0


class ProcessorLoad(msgspec.Struct, frozen=True, tag=True):
    """One processor: its sessions, those whose speech is being decoded, and those refused.

    `waiting` is an estimate of the clients that were refused and come again.
    """

    instance: int
    seconds: float
    sessions: int
    speaking: int
    waiting: float
    chunk_seconds: float
    draining: bool = False


LoadReport = WorkerLoad | ProcessorLoad

# Units of `WorkerLoad.work`.
ENCODE_WORK = ("windows", "gflops")
PD_WORK = ("decodes", "prefill_tokens", "steps")
