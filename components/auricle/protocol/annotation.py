"""Messages of annotations: words, speakers and translations."""

from __future__ import annotations

import msgspec

from auricle.protocol.recognition import DecodeWindow
from auricle.protocol.stream import SpeakerPart, WordSource


class SegmentSpeakers(msgspec.Struct, frozen=True, tag="Speakers"):
    """Processor → frontend: the speakers of a segment whose `Final` was sent before.

    The parts are in order; their joined `text` is the segment's. `source` names the word times that
    divided the text; `missing` is the reason for missing parts. `state` is the next
    `ResumePoint.speakers`. Speakers never change.
    """

    segment: int
    parts: tuple[SpeakerPart, ...] = ()
    source: WordSource | None = None
    missing: str = ""
    state: bytes = b""


class SegmentTranslation(msgspec.Struct, frozen=True, tag="Translation"):
    """Processor → frontend: the translation of a segment into `language`, an ISO 639-1 code.

    `committed` is append-only; `partial` follows it and may change. `final` marks the last event
    for this segment and language; `missing` is the reason if the translation is incomplete.
    """

    segment: int
    language: str
    committed: str
    partial: str = ""
    final: bool = False
    missing: str = ""


class Untranslated(msgspec.Struct, frozen=True, array_like=True):
    """A segment whose last `SegmentTranslation` into `language` was not sent yet.

    `committed` was sent. `source` is the segment's final text, in the language named `spoken`;
    empty while the segment is open.
    """

    segment: int
    language: str
    committed: str = ""
    source: str = ""
    spoken: str = ""


class Translating(msgspec.Struct, frozen=True, array_like=True):
    """The state of a session's translations, for the next processor.

    `before` has the last translated segments by language: pairs of text and translation.
    """

    untranslated: tuple[Untranslated, ...] = ()
    before: dict[str, tuple[tuple[str, str], ...]] = {}


class AlignRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → align worker; answered by `AlignReply`.

    `windows` are the whole segment of `audio_ms`, encoded by the aligner's own checkpoint, and
    `words` its words, at least one. The joined `texts` are its text: each word with the punctuation
    and white space around it. `language` is the text's, empty if unknown. `background` requests
    yield to live ones.
    """

    session: str
    tenant: str
    windows: tuple[DecodeWindow, ...]
    words: tuple[str, ...]
    audio_ms: int
    background: bool = False
    trace: str = ""
    texts: tuple[str, ...] = ()
    language: str = ""


class AlignReply(msgspec.Struct, frozen=True, tag=True):
    """`times_ms` are the beginning and the end of each word, in milliseconds from the segment's
    start: two for each word, not decreasing, within the audio.

    NIXL transferred `embedding_bytes_read` for this request, in `read_seconds`.
    """

    times_ms: tuple[int, ...]
    embedding_bytes_read: int = 0
    read_seconds: float = 0.0


class DiarizeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → diarize worker; answered by `DiarizeReply`.

    `pcm` is a segment, 16 kHz mono int16, little-endian. `state` is the state in the reply for the
    session's previous segment, empty for the first. The session has at most `max_speakers`,
    counted from 1. `background` requests yield to live ones.
    """

    session: str
    tenant: str
    pcm: bytes
    state: bytes
    max_speakers: int
    background: bool = False
    trace: str = ""


class SpeakerTurn(msgspec.Struct, frozen=True):
    """`speaker` speaks from `start` to `end`, samples of the segment."""

    speaker: int
    start: int
    end: int


class DiarizeReply(msgspec.Struct, frozen=True, tag=True):
    """The speakers' turns, in order and without overlap; empty without speech.

    The session's next request must have `state`. State and turns depend only on the request and the
    speaker model, so any worker can repeat a request.
    """

    turns: tuple[SpeakerTurn, ...]
    state: bytes


class TranslateRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → translate worker; answered by `TranslateReply`.

    `source` is the text of a segment so far, and `answer` the committed part of its translation,
    which the reply continues. `whole` marks the complete source of the segment. `draft` is a guess
    of the reply, which is verified and cannot change it.

    Languages are ISO 639-1 codes; `source_language` is empty if unknown. `context` has the previous
    sentences with their translations, and `terms` fixed translations of single words. `background`
    requests yield to live ones.
    """

    session: str
    tenant: str
    source_language: str
    target: str
    source: str
    context: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    answer: str = ""
    draft: str = ""
    whole: bool = False
    background: bool = False
    trace: str = ""


class TranslateReply(msgspec.Struct, frozen=True, tag=True):
    """`text` continues the request's `answer`; `finish` is `stop` (the model ended its answer) or
    `length`.

    It depends only on the request and the model, so any worker can repeat a request.
    `cached_tokens` of the `prompt_tokens` were in the KV cache; `accepted_tokens` of the verified
    `draft_tokens` were accepted. `seconds` is the worker's time, waiting included.
    """

    text: str
    finish: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    seconds: float = 0.0
