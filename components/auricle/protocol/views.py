"""Processors' views of their sessions and workers, for the page for operators."""

from __future__ import annotations

import msgspec

# A session's steps are kept for this time after the last request.
STEPS_KEPT_SECONDS = 10.0


class AskView(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor; answered by `View`.

    The steps of the sessions `steps_of` are kept from now on, for `STEPS_KEPT_SECONDS`.
    """

    steps_of: tuple[str, ...] = ()


class SessionState(msgspec.Struct, frozen=True):
    """An open session, as its processor sees it, without any text.

    It has been open here for `open_seconds`. `audio_seconds` of audio were received, and
    `segment_seconds` of them are in the open segment, number `segment`; `speaking` if the segment
    has audio. `chunk_seconds` is the time of the last chunk from its audio to its text, 0 before
    the first. `background` marks a recording's part. Workers are instance ids in hex, empty between
    segments.
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
    """The duration of one decode, step by step, in seconds.

    `wait` is the time from the arrival of its last audio until its processing began; `mel`,
    `encode`, `read` (of the embeddings) and `decode` follow in sequence, each summed over attempts;
    `rest` is the remainder of the `whole`: waiting for a worker, and before attempts. `decode`
    includes the transport to and from the PD worker. The decode covered the session up to
    `audio_seconds`; `final` if it ended the segment. `skipped`: it was abandoned or rejected,
    because of load or of the segment's end.
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
    """The last recorded chunks of one session, oldest first."""

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
    """Processor → frontend: its sessions, and the last load reports of workers.

    `sessions` are the oldest and the requested ones; `others` is the number of omitted ones.
    `speaking` have audio in their open segment; `waiting` clients were recently rejected. `limit`
    is the present limit of live sessions. `chunk_seconds` is the 95th percentile of recent chunks.
    """

    sessions: tuple[SessionState, ...]
    others: int
    speaking: int
    waiting: float
    limit: int
    chunk_seconds: float
    steps: tuple[SessionSteps, ...]
    workers: tuple[SeenWorker, ...]
