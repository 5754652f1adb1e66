"""What processes say of themselves when asked, and the document that a diagnosis makes of it."""

from __future__ import annotations

import msgspec


class RunningModel(msgspec.Struct, frozen=True):
    """The checkpoint's fingerprint, and the data type of embeddings and decoder."""

    checkpoint: str
    dtype: str


class SlabState(msgspec.Struct, frozen=True):
    """The slots of a slab: all, those with content, and those that cannot be evicted now."""

    slots: int
    used: int
    leased: int


class Transfers(msgspec.Struct, frozen=True):
    """How this process moves embeddings.

    `backends` are NIXL's. `possible` are the kinds of transport that UCX may use here (`RDMA`,
    `TCP`, `shared memory`, `CUDA IPC`); NIXL does not say which it chose. `allowed` and `devices`
    are the values of UCX_TLS and UCX_NET_DEVICES, empty if they are not set. `memory` is what
    embeddings are in, `host` or `GPU`.
    """

    backends: tuple[str, ...]
    possible: tuple[str, ...]
    allowed: str
    devices: str
    memory: str = "host"


class KvRoom(msgspec.Struct, frozen=True):
    """Tokens of the KV cache and of one request at most, and requests at a time.

    `attended` is the room in tokens that each request takes besides its own tokens: positions of
    cross-attention.
    """

    tokens: int
    max_model_len: int
    max_requests: int
    attended: int = 0


class SegmentNeed(msgspec.Struct, frozen=True):
    """The tokens of prompt and output, without context, of a segment of the longest `seconds`."""

    seconds: float
    tokens: int


class LoadNow(msgspec.Struct, frozen=True):
    """What a process has in work at this moment, of at most `limit`, and how busy it was lately.

    `unit` is what is counted: `sessions` of frontends and processors (the limit is of live ones),
    `requests` of encode workers, `decodes` of PD workers. `busy` is the share of time with work, 0
    to 1, in the last load report; None where none was made.
    """

    unit: str
    now: int
    limit: int
    busy: float | None = None


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a component says of its own parts; None where it has no such part."""

    model: RunningModel | None = None
    slab: SlabState | None = None
    transfers: Transfers | None = None
    kv: KvRoom | None = None
    segment: SegmentNeed | None = None
    load: LoadNow | None = None


class AskDescription(msgspec.Struct, frozen=True, tag=True):
    """Any process → any other; answered by `Description`."""


class Description(msgspec.Struct, frozen=True, tag=True):
    """What a process says of itself.

    `clock` is its wall clock, in Unix seconds. `versions` are those of packages, as they were
    installed when the process started; packages that it lacks are left out. `silent_part` has
    owed it an answer for `silent_seconds`.
    """

    host: str
    pid: int
    clock: float
    versions: dict[str, str]
    silent_seconds: float
    silent_part: str
    draining: bool
    parts: Parts


class AskProbe(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor: encode and decode a second of noise on these instances."""

    encode_worker: int
    pd_worker: int


class Probed(msgspec.Struct, frozen=True, tag=True):
    """Processor → frontend: the duration of each step in seconds.

    `encode_seconds` and `decode_seconds` are of the calls, as the processor sees them;
    `read_seconds` is the part of the decode in which embeddings were read. If `failed` names a
    step (`encode`, `decode`), `fault` is the error's code, and what follows did not happen.
    """

    mel_seconds: float
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    read_seconds: float = 0.0
    bytes_read: int = 0
    failed: str = ""
    fault: str = ""


class ProcessAnswer(msgspec.Struct, frozen=True):
    """A process of `component`, its instance id in hex (empty for the frontend that asked).

    The answer took `seconds`. The process's wall clock was `clock_ahead_seconds` ahead of the
    frontend's, give or take half of them. Without an answer `fault` is the error's code.
    """

    component: str
    instance: str
    seconds: float
    description: Description | None = None
    clock_ahead_seconds: float = 0.0
    fault: str = ""


class ProbeAnswer(msgspec.Struct, frozen=True):
    """A probe by way of three instances (ids in hex).

    If the processor did not answer, `steps` is None and `fault` the error's code; `not_reached`
    if time ran out before its turn.
    """

    processor: str
    encode_worker: str
    pd_worker: str
    steps: Probed | None = None
    fault: str = ""


class DiscoveryState(msgspec.Struct, frozen=True):
    """`state` is `up`, `down` or `unknown`; `unlisted` are components it gave no answer about."""

    backend: str
    state: str
    unlisted: tuple[str, ...] = ()


class BusState(msgspec.Struct, frozen=True):
    """Whether NATS takes transcripts, and how many wait for it."""

    up: bool
    waiting: int


class Diagnosis(msgspec.Struct, frozen=True):
    """What one frontend found out about its deployment at `at` (Unix seconds), in `seconds`.

    `unasked` processes were in discovery beyond the number that is asked. `bus` is None if there
    is no transcript bus. `beside` are the components beside the path that the settings are for.
    """

    namespace: str
    at: float
    seconds: float
    processes: tuple[ProcessAnswer, ...]
    unasked: int
    probes: tuple[ProbeAnswer, ...]
    discovery: DiscoveryState
    bus: BusState | None = None
    beside: tuple[str, ...] = ()
