"""The document of `GET /v1/operations`, which the page at `/ops` shows."""

from __future__ import annotations

from typing import Literal

import msgspec

from auricle.ops.finding import Finding
from auricle.protocol.control import PastDecision
from auricle.protocol.diagnosis import KvRoom, SlabState
from auricle.protocol.views import ChunkSteps, SeenWorker, SessionState

State = Literal["ready", "draining", "silent", "unreachable"]


class ProcessEntry(msgspec.Struct, frozen=True):
    """A process: `name` as in `auricle doctor`, its `instance` id in hex, and its `state`.

    One that is `unreachable` did not answer and has neither `host` nor `pid`; one that is
    `silent` reports no load any more.
    """

    name: str
    instance: str
    state: State
    host: str
    pid: int
    version: str


class FrontendState(msgspec.Struct, frozen=True):
    """This frontend: live sessions, of how many at most, and connections."""

    sessions: int
    sessions_limit: int
    connections: int
    draining: bool


class ProcessorState(msgspec.Struct, frozen=True):
    """A processor: open sessions (recordings included), those with speech, and those refused
    lately. `admits` is how many live sessions it lets in now; `chunk_seconds` is the 95th
    percentile of recent chunks, from audio to text."""

    place: ProcessEntry
    sessions: int
    speaking: int
    waiting: float
    admits: int
    chunk_seconds: float


class WorkerState(msgspec.Struct, frozen=True):
    """A worker: its last load report, the slots of its slab, and a PD worker's KV cache."""

    place: ProcessEntry
    load: SeenWorker | None
    slab: SlabState | None
    kv: KvRoom | None


class PoolState(msgspec.Struct, frozen=True):
    """The workers of one `component`, such as `pd_worker`; `name` is their title."""

    component: str
    name: str
    workers: tuple[WorkerState, ...]


class SessionRow(msgspec.Struct, frozen=True):
    """An open session, and the instance id of its processor."""

    processor: str
    state: SessionState


class PlannerState(msgspec.Struct, frozen=True):
    """A planner: whether it `leads`, its latest decision for each pool in words, and its last
    ones, oldest first. It decides every `step_seconds`."""

    place: ProcessEntry
    leads: bool
    latest: tuple[str, ...]
    past: tuple[PastDecision, ...]
    step_seconds: float


class DeploymentHealth(msgspec.Struct, frozen=True):
    """What `auricle doctor` would say without probes, as of `age_seconds` ago."""

    age_seconds: float
    wrong: int
    findings: tuple[Finding, ...]


class TextLag(msgspec.Struct, frozen=True):
    """The text up to `audio_seconds` of a session came `seconds` after that audio had come."""

    audio_seconds: float
    seconds: float


class ChosenSession(msgspec.Struct, frozen=True):
    """The last chunks of a session, oldest first, as its processor measured them; and `lags`, as
    this frontend did, which has all sessions of its own clients and none of other frontends."""

    session: str
    chunks: tuple[ChunkSteps, ...]
    lags: tuple[TextLag, ...]


class Operations(msgspec.Struct, frozen=True):
    """The deployment at `at` (Unix seconds), as this frontend sees it; without any transcript.

    A new one is made every `every_seconds` while a page is open. Without `keys` no API keys are
    set, and every client of this frontend may look. `sessions_left_out` are those beyond 200 of a
    processor. `chosen` are the steps of the session that was asked for, None if it is not open;
    they are kept from then on. `pools` has every pool that has a worker, and those that sessions
    need.
    """

    at: float
    every_seconds: float
    namespace: str
    keys: bool
    health: DeploymentHealth
    frontend: FrontendState
    processors: tuple[ProcessorState, ...]
    pools: tuple[PoolState, ...]
    planners: tuple[PlannerState, ...]
    sessions: tuple[SessionRow, ...]
    sessions_left_out: int
    chosen: ChosenSession | None


class LoadMoment(msgspec.Struct, frozen=True):
    """The load of all processors at `at` (Unix seconds): open sessions, those with speech, clients
    that were refused lately, and the 95th percentile of recent chunks, from audio to text."""

    at: float
    sessions: int
    speaking: int
    waiting: float
    chunk_seconds: float


class OperationsHistory(msgspec.Struct, frozen=True):
    """The last hour as this frontend saw it, oldest first, with a moment every `every_seconds`."""

    every_seconds: float
    moments: tuple[LoadMoment, ...]


class Examination(msgspec.Struct, frozen=True):
    """The findings of `auricle doctor`, with a probe of every worker; it took `seconds`."""

    at: float
    seconds: float
    probes: int
    wrong: int
    findings: tuple[Finding, ...]


class StreamEnd(msgspec.Struct, frozen=True):
    """Why a stream ended: the `code` of an error, or `going_away` when the frontend shuts down."""

    code: str
    message: str
