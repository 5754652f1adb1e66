"""The messages of clients of `/v1/audio/stream`, and the JSON of the server's. No I/O.

The client sends `start`, binary frames of audio, and `end`. The server sends `ready`, then
`partial` and `final` for each segment, then `done` or `error`. See docs/websocket.md. Fields
that end in `_ms` are milliseconds, and positions are relative to the start of the session.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.audio.features import DTYPES
from auricle.audio.pcm import ENCODINGS
from auricle.config.frontend import PreRollMs, SilenceMs, SpeechThreshold
from auricle.frontend.audio.turn_detection import WAITS
from auricle.frontend.link.words import WordTimes
from auricle.frontend.transport.options import (
    ChunkMs,
    Context,
    Language,
    MaxSpeakers,
    SampleRate,
    one_of,
)
from auricle.frontend.transport.transcription_options import MOST_AMONG
from auricle.protocol.stream import Reply, Resumable, Resume

# The encoding of features that the client computed, see docs/log_mel.md.
LOG_MEL = "log_mel"


# Resume tokens are bound to the encoded options. Without defaults these stay the same when a later
# release adds an option.
class StreamEndpointing(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The session's endpointing; None stands for the server's default.

    `threshold` is a speech probability from 0 to 1. With `enabled` false all audio is decoded. With
    `eagerness` speech ends where a turn model takes the speaker's turn to be over, instead of after
    `min_silence_ms`.
    """

    enabled: bool | None = None
    threshold: SpeechThreshold | None = None
    min_silence_ms: SilenceMs | None = None
    pre_roll_ms: PreRollMs | None = None
    eagerness: Annotated[str, one_of(WAITS)] | None = None


class Start(
    msgspec.Struct, frozen=True, tag="start", forbid_unknown_fields=True, omit_defaults=True
):
    """The client's first message.

    `sample_rate` is in Hz. `feature_dtype` applies to the encoding `log_mel` only. With
    `chunk_ms` None the server's default applies, with `language` None the language is
    detected; of `languages`, at most four, each segment is in one. With `partials` false each
    segment is decoded once, when it is complete; that costs less, and the text does not depend on
    load. With `words` each `final` with text is followed, sooner or later, by its `words`, with
    the times of an aligner, or with `word_times` `grid` with the times of decodes. With `diarize`
    it is followed by its `speakers`, of whom there are at most `max_speakers`. Text is translated
    into the languages `translate`, ISO 639-1 codes, at most four; `terms` are words and their
    translations, by language. `resume` continues an earlier session, whose `start` had the same
    other fields.
    """

    sample_rate: SampleRate
    encoding: Annotated[str, one_of((*ENCODINGS, LOG_MEL))] = "pcm_s16le"
    feature_dtype: Annotated[str, one_of(DTYPES)] = "float32"
    language: Language | None = None
    languages: Annotated[tuple[Language, ...], Meta(max_length=MOST_AMONG)] = ()
    context: Context = ""
    chunk_ms: ChunkMs | None = None
    partials: bool = True
    endpointing: StreamEndpointing = StreamEndpointing()
    words: bool = False
    word_times: WordTimes = "aligned"
    diarize: bool = False
    max_speakers: MaxSpeakers | None = None
    translate: tuple[str, ...] = ()
    terms: dict[str, dict[str, str]] = {}
    resume: Resume | None = None

    @property
    def aligned_words(self) -> bool:
        return self.words and self.word_times == "aligned"


class End(msgspec.Struct, frozen=True, tag="end", forbid_unknown_fields=True):
    """The client's last message: the audio has ended."""


_encode = msgspec.json.Encoder().encode


def encode(reply: Reply | Resumable) -> str:
    return _encode(reply).decode()
