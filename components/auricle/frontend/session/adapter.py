"""Messages and audio options that several protocols share. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import msgspec

from auricle.annotation.speakers.model import NO_SPEAKER_MODEL
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.turn_detection import Silence
from auricle.frontend.link.words import WordTimes
from auricle.frontend.transport.request_errors import json_fault

Reply = dict[str, Any]
M = TypeVar("M")
LONGEST = 8_192  # characters of a client's text message


def decoded(text: str, messages: msgspec.json.Decoder[M], names: str) -> M:
    """Decode a client's text message. Raises ProtocolError, with the supported `names`."""
    if len(text) > LONGEST:
        raise ProtocolError(f"a text message has at most {LONGEST} characters, not {len(text)}")
    try:
        return messages.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(
            f"not a message that is supported ({names}): {json_fault(error)}"
        ) from None


def encode(reply: Reply) -> str:
    return msgspec.json.encode(reply).decode()


@dataclass(frozen=True, kw_only=True)
class ChannelOptions:
    """How the audio of one session is transcribed; `encoding` is one of `audio.pcm.ENCODINGS`.

    `sample_rate` is in Hz. Without `silence` the server's endpointing applies. With `languages`
    each segment is in one of them. `words`: the source of word times, None for no words. With
    `diarize` finals have their speakers, at most `max_speakers`. `name` is the processor
    session's, by default the name of the admitted session; on the transcript bus the text is `part`
    of the session `group`, by default of `name`, or of the `call`, as the client names it. Text is
    translated into `translate`, an ISO 639-1 code.
    """

    sample_rate: int
    encoding: str = "pcm_s16le"
    language: str | None = None
    languages: tuple[str, ...] = ()
    context: str = ""
    silence: Silence | None = None
    partials: bool = True
    words: WordTimes | None = None
    diarize: bool = False
    max_speakers: int | None = None
    name: str | None = None
    group: str | None = None
    call: str | None = None
    part: str = ""
    translate: str | None = None


@dataclass(frozen=True, kw_only=True)
class AudioOptions(ChannelOptions):
    """The options of a connection, each of whose `channels` is a session of its own.

    `warnings` are sentences on options without effect.
    """

    channels: int = 1
    model: str | None = None
    partials: bool = False
    words: WordTimes | None = "grid"
    warnings: tuple[str, ...] = ()

    def with_warnings(self, warnings: tuple[str, ...]) -> Self:
        """Return the same options with further warnings, which come first."""
        return replace(self, warnings=(*warnings, *self.warnings))

    def without_speakers(self, option: str) -> Self:
        """Return the same options for a server without a speaker model; a warning names `option`.

        If no speakers are requested, they are unchanged.
        """
        if not self.diarize:
            return self
        warning = f"{option} has no effect: {NO_SPEAKER_MODEL}"
        return replace(self, diarize=False, warnings=(*self.warnings, warning))
