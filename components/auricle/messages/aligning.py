"""Messages between processor and align worker."""

from __future__ import annotations

import msgspec

from auricle.messages.decoding import DecodeWindow


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
