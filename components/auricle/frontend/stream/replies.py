"""Turns what happens in a session into the messages of `/v1/audio/stream`. No I/O."""

from __future__ import annotations

from auricle.audio.pcm import milliseconds
from auricle.confidence import of_text
from auricle.frontend.listening.pieces import (
    Mark,
    SpeechStarted,
    SpeechStopped,
    TurnPaused,
    TurnResumed,
)
from auricle.messages import stream
from auricle.messages.sessions import Final, Partial, Words
from auricle.messages.speakers import Speakers
from auricle.messages.translations import Translation


def partial_reply(event: Partial) -> stream.Partial:
    """Return the client's message for a partial."""
    return stream.Partial(
        event.segment, event.committed, event.partial, event.audio_ms, event.language
    )


def final_reply(event: Final) -> stream.Final:
    """Return the client's message for a final."""
    return stream.Final(event.segment, event.text, event.start_ms, event.end_ms, event.language)


def mark_reply(event: Mark) -> stream.SpeechMark:
    """Return the client's message for what endpointing found."""
    at_ms = milliseconds(event.at)
    match event:
        case SpeechStarted():
            return stream.SpeechStarted(at_ms)
        case SpeechStopped():
            return stream.SpeechStopped(at_ms)
        case TurnPaused():
            return stream.TurnPaused(at_ms, round(event.probability, 3))
        case TurnResumed():
            return stream.TurnResumed(at_ms)


def words_reply(event: Words) -> stream.Words:
    """Return the client's message for a segment's words."""
    confidence = of_text(word.confidence for word in event.words)
    return stream.Words(event.segment, event.words, event.source, event.missing or None, confidence)


def speakers_reply(event: Speakers) -> stream.Speakers:
    """Return the client's message for a segment's speakers."""
    return stream.Speakers(event.segment, event.parts, event.source, event.missing or None)


def translation_reply(event: Translation) -> stream.Translation:
    """Return the client's message for a segment's translation."""
    return stream.Translation(
        *(event.segment, event.language, event.committed, event.partial, event.final),
        event.missing or None,
    )
