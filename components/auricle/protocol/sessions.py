"""Messages between frontend and processor, grouped by receiver."""

from __future__ import annotations

from typing import Literal

import msgspec

from auricle.audio.features import FeaturePacket
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation, Translating
from auricle.protocol.stream import Usage, Word, WordSource

# Bounds of the audio between two decodes of a session.
MIN_CHUNK_MS, MAX_CHUNK_MS = 80, 10_000
# An admitted session that has not begun after this time is considered gone.
ADMISSION_SECONDS = 2.0


# ── to the processor ────────────────────────────────────────────────────────


class ResumePoint(msgspec.Struct, frozen=True):
    """The state with which another processor continues, with the audio from `segment_start`.

    The words of `committed_tokens` were spoken within the segment's first `committed_before`
    samples, so a cut there or later duplicates none of them. `language` is the name of the previous
    text's language; it applies if a segment's own is doubtful. `speakers` is the state of the
    session's voices, see `DiarizeReply.state`. Only frontends fill `translations`; events do not
    have them. Raises ValueError for a negative position.
    """

    segment: int = 0
    segment_start: int = 0
    committed_tokens: tuple[int, ...] = ()
    context: str = ""
    committed_before: int = 0
    speakers: bytes = b""
    translations: Translating = Translating()
    language: str = ""

    def __post_init__(self) -> None:
        if min(self.segment, self.segment_start, self.committed_before) < 0:
            raise ValueError("a resume point has no negative positions")


class AdmitSession(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor, at admission of a client; answered by `Admitted`.

    Rejected as `overloaded` if the processor has no capacity. An admitted session counts as load
    for `ADMISSION_SECONDS`, unless it is opened as `admission` or withdrawn before. `client`
    identifies the client: its sessions that have not begun hardly block other clients, and a client
    with many sessions yields to others of the same or a higher `priority`. A session that `resumes`
    was admitted before: only a processor without free slots rejects it. `others`: there are
    further tenants; then this one may have its share of the places only, unless it is `bounded` by
    a number of its own.
    """

    tenant: str
    admission: str
    client: str = ""
    resumes: bool = False
    priority: int = 0
    others: bool = False
    bounded: bool = False


class Admitted(msgspec.Struct, frozen=True, tag=True):
    """The session may start."""


class WithdrawAdmission(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor: the client left before its session was opened, or just after.

    Answered by `Withdrawn`; an unknown admission is ignored.
    """

    tenant: str
    admission: str


class Withdrawn(msgspec.Struct, frozen=True, tag=True):
    """The answer to `WithdrawAdmission`."""


# The mark after a piece of audio: none, a short silence at which a long segment may end, or the end
# of speech, which ends the segment.
Boundary = Literal["none", "pause", "endpoint"]


class WholeAudio(msgspec.Struct, frozen=True):
    """All audio of a session, known when it opens; fields as in `PushAudio` and `EndAudio`."""

    start_sample: int
    pcm: bytes
    boundary: Boundary
    total_samples: int


class OpenSession(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor; answered by a stream of `SessionEvent`s.

    `context` is the user's context text. With `language` None the language is detected, among
    `languages` if given. With `to_english`, text is the model's own translation. Without
    `partials`, each segment is decoded once, as a whole. With `commit_early`, text is committed as
    soon as two decodes agree on it. With `logprobs`, finals have the tokens of their text. Later
    events annotate each final with text: `SegmentWords` with `words`, `SegmentSpeakers` with
    `diarize`, which finds at most `max_speakers` (None: as many as the processor allows). With
    `grid_words` partials and finals have words at once, with the times of decodes.
    `translate` has the target languages, ISO 639-1 codes, and `terms` translations of single words,
    by language: `SegmentTranslation`s come between the other events, and the last of each segment
    with text is final. `background` work, such as recordings, yields to live sessions everywhere.
    `trace` is the W3C traceparent of the parent span, here and in other requests; empty for none.
    `admission` is the client's admission; empty for work without admission. With `whole`, nothing
    is pushed; a processor that accepts it confirms this in `SessionReady`. `frontend` is the
    `AskAlive.caller` of the frontend: the session is handed over if it is silent for 90 s.
    """

    session: str
    tenant: str
    language: str | None
    context: str
    chunk_ms: int
    partials: bool = True
    background: bool = False
    resume: ResumePoint = ResumePoint()
    trace: str = ""
    admission: str = ""
    whole: WholeAudio | None = None
    commit_early: bool = False
    logprobs: bool = False
    words: bool = False
    diarize: bool = False
    max_speakers: int | None = None
    grid_words: bool = False
    translate: tuple[str, ...] = ()
    terms: dict[str, dict[str, str]] = {}
    languages: tuple[str, ...] = ()
    to_english: bool = False
    frontend: str = ""


class PushAudio(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor; answered by `Accepted`.

    `pcm` is 16 kHz mono int16, little-endian. With `features` by the client, `pcm` is empty, and
    the last packet of a segment is an endpoint. `ahead`: the client is ahead of real time, so
    decodes are background work until a push without it.

    The request is idempotent: samples that were already received are ignored. After an endpoint the
    next piece may start later, because silence is not sent.
    """

    session: str
    tenant: str
    start_sample: int
    pcm: bytes
    boundary: Boundary = "none"
    features: FeaturePacket | None = None
    ahead: bool = False


class EndAudio(msgspec.Struct, frozen=True, tag=True):
    """Frontend → processor: the session ended after `total_samples`, silence included."""

    session: str
    tenant: str
    total_samples: int


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """The session sample up to which the processor has received the audio.

    The processor can work once it has `wanted_samples` more. Push less only with a pause, an
    endpoint or the session's end.
    """

    received_samples: int
    wanted_samples: int = 1


# ── to the frontend ─────────────────────────────────────────────────────────


class SessionReady(msgspec.Struct, frozen=True, tag=True):
    """The first event of a session; for `wanted_samples` see `Accepted`.

    `whole`: its audio came with `OpenSession`; push nothing.
    """

    session: str
    wanted_samples: int = 1
    whole: bool = False


class SegmentPartial(msgspec.Struct, frozen=True, tag="Partial"):
    """The text after one decode: `committed` will not change, `partial` may.

    `words` cover both, empty unless requested.
    """

    segment: int
    committed: str
    partial: str
    audio_ms: int
    language: str
    resume: ResumePoint
    words: tuple[Word, ...] = ()


class ScoredToken(msgspec.Struct, frozen=True):
    """A token: its bytes, possibly a part of a character, its log probability, and its id.

    The first token of a text has no leading space, which the token of that id may have.
    """

    data: bytes
    logprob: float
    id: int


class SegmentFinal(msgspec.Struct, frozen=True, tag="Final"):
    """The final text of one segment, which starts with the text committed before.

    The joined `tokens` are the text; empty unless requested, or if another processor committed a
    part of it. `words` have times of `word_source`; empty unless requested, or if another processor
    committed all of the text. Only frontends fill `speakers`, for protocols that send them with the
    text.
    """

    segment: int
    text: str
    start_ms: int
    end_ms: int
    language: str
    resume: ResumePoint
    tokens: tuple[ScoredToken, ...] = ()
    words: tuple[Word, ...] = ()
    word_source: WordSource = "commit_grid"
    speakers: SegmentSpeakers | None = None


class SegmentWords(msgspec.Struct, frozen=True, tag="Words"):
    """The words of a segment whose `SegmentFinal` was sent before.

    `missing` is the reason for missing aligned times. Without a `source`, times and words are
    missing.
    """

    segment: int
    words: tuple[Word, ...] = ()
    source: WordSource | None = None
    missing: str = ""


class SessionDone(msgspec.Struct, frozen=True, tag="Done"):
    """The last event of a session that succeeded."""

    usage: Usage


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The last event of a session that failed; `code` is an `AuricleError.code`."""

    code: str
    message: str


class HandedOver(msgspec.Struct, frozen=True, tag=True):
    """The last event of a session that another processor must continue, from `resume`."""

    resume: ResumePoint


SessionEvent = (
    SessionReady
    | SegmentPartial
    | SegmentFinal
    | SegmentWords
    | SegmentSpeakers
    | SegmentTranslation
    | SessionDone
    | Failed
    | HandedOver
)
