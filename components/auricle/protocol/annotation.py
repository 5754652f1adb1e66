"""The event of who spoke in a segment, from processor to frontend."""

from __future__ import annotations

import msgspec

from auricle.protocol.recognition import DecodeWindow
from auricle.protocol.stream import SpeakerPart, WordSource


class SegmentSpeakers(msgspec.Struct, frozen=True, tag="Speakers"):
    """Who spoke in a segment whose `Final` was sent before. It is never changed.

    The parts are in order; their `text`, joined, is the segment's. `source` says by what times of
    words the text was divided. `missing` says why there are no parts. `state` is for
    `ResumePoint.speakers`, from here on.
    """

    segment: int
    parts: tuple[SpeakerPart, ...] = ()
    source: WordSource | None = None
    missing: str = ""
    state: bytes = b""


# The event of a segment's translation, from processor to frontend, and what is to be resumed.


class SegmentTranslation(msgspec.Struct, frozen=True, tag="Translation"):
    """The translation of a segment into `language`, an ISO 639-1 code.

    `committed` only grows; `partial` follows it and may change. With `final` it is complete, and
    nothing follows for this segment and language. `missing` says why it is not, though it is the
    last: what was committed stays.
    """

    segment: int
    language: str
    committed: str
    partial: str = ""
    final: bool = False
    missing: str = ""


class Untranslated(msgspec.Struct, frozen=True, array_like=True):
    """A segment whose last `SegmentTranslation` into `language` was not told yet.

    `committed` was told. `source` is the segment's final text, spoken in the language called
    `spoken`; empty while it is open.
    """

    segment: int
    language: str
    committed: str = ""
    source: str = ""
    spoken: str = ""


class Translating(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a session's translations, for whoever goes on with it.

    `before` are the last segments that were translated, by language: pairs of text and translation.
    """

    untranslated: tuple[Untranslated, ...] = ()
    before: dict[str, tuple[tuple[str, str], ...]] = {}


# Messages between processor and align worker.


class AlignRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → align worker; answered by `AlignReply`.

    `windows` are the whole segment of `audio_ms`, encoded by the aligner's own checkpoint, and
    `words` what was said in it, at least one. `texts`, joined, are its text: each word with the
    punctuation and white space around it. `language` is the text's, empty if that is not known.
    `background` requests yield to live ones.
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
    start: twice as many as words, none less than the one before, none beyond the audio.

    `embedding_bytes_read` is what NIXL transferred for this request, in `read_seconds`.
    """

    times_ms: tuple[int, ...]
    embedding_bytes_read: int = 0
    read_seconds: float = 0.0


# Messages between processor and diarize worker.


class DiarizeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → diarize worker; answered by `DiarizeReply`.

    `pcm` is a segment, 16 kHz mono int16, little-endian. `state` is that of the reply for the
    session's segment before, empty in the first. The session has `most_speakers` at most, counted
    from 1. `background` requests yield to live ones.
    """

    session: str
    tenant: str
    pcm: bytes
    state: bytes
    most_speakers: int
    background: bool = False
    trace: str = ""


class SpeakerTurn(msgspec.Struct, frozen=True):
    """`speaker` speaks from `start` to `end`, samples of the segment."""

    speaker: int
    start: int
    end: int


class DiarizeReply(msgspec.Struct, frozen=True, tag=True):
    """Who spoke when: turns in order, none overlapping; none if nobody was heard.

    `state` is what the session's next request must have. It and the turns depend on the request
    and the speaker model only, so that a request may be made again anywhere.
    """

    turns: tuple[SpeakerTurn, ...]
    state: bytes


# Messages between processor and translate worker.


class TranslateRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → translate worker; answered by `TranslateReply`.

    `source` is the text of a segment so far, and `answer` the part of its translation that stays:
    the reply goes on after it. With `whole` no more source comes for this segment. `draft` is a
    guess of what the reply says, which is verified and cannot change it.

    Languages are ISO 639-1 codes; `source_language` is empty if nobody knows it. `context` are
    the sentences before, each with its translation, and `terms` how single words are to be
    translated. `background` requests yield to live ones.
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
    """`text` is what follows the request's `answer`; `finish` is `stop` (the model ended its
    answer) or `length`.

    It depends on the request and the model only, so that a request may be made again anywhere.
    `cached_tokens` of the `prompt_tokens` were found in the KV cache; of the `draft_tokens`
    verified, `accepted_tokens` were accepted. `seconds` is how long the worker took, waiting
    included.
    """

    text: str
    finish: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    seconds: float = 0.0
