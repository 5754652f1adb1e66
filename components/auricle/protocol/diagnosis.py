"""Descriptions of processes, probes, and the diagnosis document."""

from __future__ import annotations

import msgspec


class RunningModel(msgspec.Struct, frozen=True):
    """The checkpoint's fingerprint, and the data type of embeddings and decoder."""

    checkpoint: str
    dtype: str


class SlabState(msgspec.Struct, frozen=True):
    """The slots of a slab: all, used ones, and leased ones, which cannot be evicted."""

    slots: int
    used: int
    leased: int


class Transfers(msgspec.Struct, frozen=True):
    """How this process moves embeddings.

    `backends` are NIXL's. `possible` are the kinds of transport that UCX may use here (`RDMA`,
    `TCP`, `shared memory`, `CUDA IPC`); NIXL does not report its choice. `allowed` and `devices`
    are the values of UCX_TLS and UCX_NET_DEVICES, empty if not set. `memory` of the embeddings is
    `host` or `GPU`. `agent` is the name of its NIXL agent.
    """

    backends: tuple[str, ...]
    possible: tuple[str, ...]
    allowed: str
    devices: str
    memory: str = "host"
    agent: str = ""


class TimedRead(msgspec.Struct, frozen=True):
    """Timed reads of `size` bytes from the NIXL agent `agent`, out of its `memory` (see Transfers).

    The fastest took `seconds`; None if they failed, and `fault` is the reason.
    """

    agent: str
    memory: str
    size: int = 0
    seconds: float | None = None
    fault: str = ""


class KvRoom(msgspec.Struct, frozen=True):
    """Tokens of the KV cache and of one request at most, and requests at a time.

    `attended` is the room, in tokens, of each request's cross-attention positions.
    """

    tokens: int
    max_model_len: int
    max_requests: int
    attended: int = 0


class SegmentNeed(msgspec.Struct, frozen=True):
    """The tokens of prompt and output, without context, of the longest segment, `seconds`."""

    seconds: float
    tokens: int


class LoadNow(msgspec.Struct, frozen=True):
    """A process's work in progress, its limit, and its recent load.

    `unit` is `sessions` for frontends and processors (the limit counts live ones), `requests` for
    encode workers, `decodes` for PD workers. `busy` is the share of time with work, 0 to 1, in the
    last load report; None without a report.
    """

    unit: str
    now: int
    limit: int
    busy: float | None = None


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """A component's own parts; None or empty for parts that it lacks."""

    model: RunningModel | None = None
    slab: SlabState | None = None
    transfers: Transfers | None = None
    timed_reads: tuple[TimedRead, ...] = ()
    kv: KvRoom | None = None
    segment: SegmentNeed | None = None
    load: LoadNow | None = None


class AskDescription(msgspec.Struct, frozen=True, tag=True):
    """Any process → any other; answered by `Description`."""


class Description(msgspec.Struct, frozen=True, tag=True):
    """A process's description of itself.

    `clock` is its wall clock, in Unix seconds. `versions` has the package versions installed when
    the process started. `silent_part` has been silent for `silent_seconds`. Requests of versions
    `wires[0]` to `wires[1]` of the wire are accepted, and the process sends requests of the latter.
    """

    host: str
    pid: int
    clock: float
    versions: dict[str, str]
    silent_seconds: float
    silent_part: str
    draining: bool
    parts: Parts
    wires: tuple[int, int] = (1, 1)


class AskProbe(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor: encode and decode a second of noise on these instances."""

    encode_worker: int
    pd_worker: int


class Probed(msgspec.Struct, frozen=True, tag=True):
    """Processor → frontend: the duration of each step in seconds.

    `encode_seconds` and `decode_seconds` are the times of the calls at the processor;
    `read_seconds` is the part of the decode that read embeddings. If `failed` names a step
    (`encode`, `decode`), `fault` is the error's code, and later steps did not run.
    """

    mel_seconds: float
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    read_seconds: float = 0.0
    bytes_read: int = 0
    failed: str = ""
    fault: str = ""


class ProcessAnswer(msgspec.Struct, frozen=True):
    """A process of `component`, its instance id in hex (empty for the diagnosing frontend).

    The answer took `seconds`. The process's wall clock was `clock_ahead_seconds` ahead of the
    frontend's, with an error of up to half of `seconds`. Without an answer `fault` is the error's
    code.
    """

    component: str
    instance: str
    seconds: float
    description: Description | None = None
    clock_ahead_seconds: float = 0.0
    fault: str = ""


class ProbeAnswer(msgspec.Struct, frozen=True):
    """A probe through three instances (ids in hex).

    If the processor did not answer, `steps` is None and `fault` the error's code; `not_reached`
    if time ran out before its turn.
    """

    processor: str
    encode_worker: str
    pd_worker: str
    steps: Probed | None = None
    fault: str = ""


class DiscoveryState(msgspec.Struct, frozen=True):
    """`state` is `up`, `down` or `unknown`; `unlisted` are components without an answer."""

    backend: str
    state: str
    unlisted: tuple[str, ...] = ()


class BusState(msgspec.Struct, frozen=True):
    """Whether NATS accepts transcripts, and the number of waiting ones."""

    up: bool
    waiting: int


class Diagnosis(msgspec.Struct, frozen=True):
    """One frontend's examination of its deployment at `at` (Unix seconds), in `seconds`.

    `unasked` processes in discovery exceeded the limit and were not examined. `bus` is None without
    a transcript bus. `optional_pools` has the components of the
    configured ones; its key in JSON is `beside`.
    """

    namespace: str
    at: float
    seconds: float
    processes: tuple[ProcessAnswer, ...]
    unasked: int
    probes: tuple[ProbeAnswer, ...]
    discovery: DiscoveryState
    bus: BusState | None = None
    optional_pools: tuple[str, ...] = msgspec.field(default=(), name="beside")
