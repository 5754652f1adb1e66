"""What processors show operators of their sessions and workers, when they are asked."""

from __future__ import annotations

import msgspec

# After so long without another question, a session's steps are no longer kept.
STEPS_KEPT_SECONDS = 10.0


class AskView(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor; answered by `View`.

    The steps of the sessions `steps_of` are kept from now on, for `STEPS_KEPT_SECONDS`.
    """

    steps_of: tuple[str, ...] = ()


class SessionState(msgspec.Struct, frozen=True):
    """An open session, as its processor sees it; nothing that was said is in it.

    It has been here for `open_seconds`. `audio_seconds` is the position up to which audio was
    received, `segment_seconds` how much of it is in the open segment, which is number `segment`;
    `speaking` if that is any. `chunk_seconds` is how long the last chunk took from its audio to
    its text, 0 before the first. `background` is a recording's part. Workers are instance ids in
    hex, empty between segments.
    """

    session: str
    tenant: str
    open_seconds: float
    audio_seconds: float
    segment: int
    segment_seconds: float
    speaking: bool
    background: bool
    decodes: int
    decodes_skipped: int
    chunk_seconds: float
    encode_worker: str
    pd_worker: str


class ChunkSteps(msgspec.Struct, frozen=True):
    """How long one decode took, step by step, in seconds.

    `wait` is from the arrival of its last audio until work on it began; `mel`, `encode`, `read`
    (of the embeddings) and `decode` are one after the other, each summed over repeated attempts;
    `rest` is what the `whole` has beside them: waiting for a worker, and before attempts.
    `decode` includes the way to the PD worker and back. `audio_seconds` is the position in the
    session that it decoded up to, `final` if that ended the segment. `skipped`: it was given up
    or refused, because of load or of the segment's end.
    """

    segment: int
    audio_seconds: float
    final: bool
    skipped: bool
    wait: float
    mel: float
    encode: float
    read: float
    decode: float
    rest: float
    whole: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    bytes_read: int
    encode_worker: str
    pd_worker: str


class SessionSteps(msgspec.Struct, frozen=True):
    """The last chunks of one session since its steps are kept, oldest first."""

    session: str
    chunks: tuple[ChunkSteps, ...]


class SeenWorker(msgspec.Struct, frozen=True):
    """A worker's last load report, `age_seconds` ago; see `load.reports.WorkerLoad`."""

    component: str
    instance: str
    age_seconds: float
    every_seconds: float
    busy: float
    requests_per_second: float
    refused_per_second: float
    failed_per_second: float
    response_seconds: float
    queue_wait_seconds: float
    slots_used: float
    slots: int
    kv_usage: float
    step_seconds: float
    draining: bool


class View(msgspec.Struct, frozen=True, tag=True):
    """Processor → frontend: its sessions, and what it has heard of the workers.

    `sessions` are the oldest ones and those asked for; `others` are left out. `speaking` have
    audio in their open segment; `waiting` were refused lately. `limit` is how many live sessions
    it admits now. `chunk_seconds` is the 95th percentile of recent chunks.
    """

    sessions: tuple[SessionState, ...]
    others: int
    speaking: int
    waiting: float
    limit: int
    chunk_seconds: float
    steps: tuple[SessionSteps, ...]
    workers: tuple[SeenWorker, ...]
