"""The load reports that processes publish every few seconds on Dynamo's event plane.

The planner and the placement of sessions and segments use these alone. Each process exports
the same numbers as Prometheus metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

# The topic of the reports under each component.
LOAD_TOPIC = "load"
# A process that has not reported for this many of its intervals is considered gone.
STALE_INTERVALS = 3.0
_SHORTEST_SECONDS = 1.0


def is_silent(age_seconds: float, every_seconds: float) -> bool:
    """Whether a process that reported at this interval sends no reports any more."""
    return age_seconds > STALE_INTERVALS * max(every_seconds, _SHORTEST_SECONDS)


# The required pools, and all pools; load/pools.py describes them.
WorkerKind = Literal["encode_worker", "pd_worker"]
PoolKind = (
    WorkerKind
    | Literal["align_encode_worker", "align_worker", "diarize_worker", "translate_worker"]
)


class WorkerLoad(msgspec.Struct, frozen=True, tag=True):
    """The load of one worker of a pool over the last `seconds`.

    `work` is the work per second, by unit (`ENCODE_WORK`, `PD_WORK`,
    `ALIGN_WORK`, `DIARIZE_WORK`, `TRANSLATE_WORK`). `busy` is the share of
    time with at least one request. `response_seconds` and `queue_wait_seconds` are 95th
    percentiles, from a request's arrival to its reply and to the start of work on it.
    `slots_used` is the mean number of requests in progress, of at most `slots_total`.
    `kv_usage` (0 to 1) and `step_seconds` come from vLLM. A worker that is `draining` takes no
    new segments, and stops when `held` (open segments, or leases) is zero. Requests count in
    `failed_per_second` if they failed by the worker's fault. Requests of versions `wires[0]` to
    `wires[1]` of the wire are accepted.
    """

    kind: PoolKind
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
    failed_per_second: float = 0.0
    wires: tuple[int, int] = (1, 1)


class DemandReport(msgspec.Struct, frozen=True):
    """A processor's demand for one annotation, such as words.

    `sessions` are the open sessions that request it; `speech_seconds` is their speech per second.
    """

    sessions: int
    speech_seconds: float


class ProcessorLoad(msgspec.Struct, frozen=True, tag=True):
    """The load of one processor over the last `seconds`.

    `sessions` are open, `speaking` of them have speech in progress, and `waiting` estimates
    the clients that were refused and will retry. `chunk_seconds` is the 95th percentile of the
    time from a chunk's audio to its text. `asked` is the demand by annotation, such as `words`.
    For `wires` see `WorkerLoad`.
    """

    instance: int
    seconds: float
    sessions: int
    speaking: int
    waiting: float
    chunk_seconds: float
    draining: bool = False
    asked: dict[str, DemandReport] = {}
    wires: tuple[int, int] = (1, 1)


class StartingPools(msgspec.Struct, frozen=True, tag=True):
    """A planner's message of every `seconds`: the pools that are started on demand.

    `kinds` has a pool from when it is empty until its first worker is ready.
    """

    seconds: float
    kinds: tuple[PoolKind, ...]


# Units of `WorkerLoad.work`.
ENCODE_WORK = ("windows", "gflops")
PD_WORK = ("decodes", "prefill_tokens", "steps")
ALIGN_WORK = ("segments", "tokens")
DIARIZE_WORK = ("segments", "speech_seconds")
TRANSLATE_WORK = ("translations", "prefill_tokens", "steps")


# The planner's observations of a pool and of the service.


@dataclass(frozen=True)
class PoolObservation:
    """One pool at time `at` (monotonic seconds).

    `replicas` is the number that the pool is scaled to (running and starting, not draining),
    `ready` the number that report and are not draining. `load` is the work done, in workers at
    the profile's knee. `response` is the response time in seconds: the mean of the workers'
    95th percentiles, or infinity if the pool refuses requests. The `load` of an optional pool is
    its demand; it may be empty unless it is `in_demand`.
    """

    at: float
    replicas: int
    ready: int
    load: float
    response: float
    in_demand: bool = True

    @property
    def utilisation(self) -> float:
        """Load per ready worker; 1 is the profile's knee."""
        return self.load / self.ready if self.ready else 0.0


@dataclass(frozen=True)
class ServiceObservation:
    """Sessions of all processors: open, with speech, and refused but expected to retry."""

    active: int
    speaking: int
    waiting: float = 0.0

    @property
    def unmet(self) -> float:
        """Total demand divided by observed load, counting refused clients; 1 if there are none."""
        return 1.0 + self.waiting / max(self.active, 1)
