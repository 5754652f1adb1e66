"""Turns what happens in a session into the messages of protocol.py. No I/O."""

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
from auricle.frontend.stream.protocol import (
    FinalReply,
    PartialReply,
    SpeakerPart,
    SpeakersReply,
    SpeechMark,
    SpeechStartedReply,
    SpeechStoppedReply,
    TimedWord,
    TranslationReply,
    TurnPausedReply,
    TurnResumedReply,
    WordsReply,
)
from auricle.messages import Final, Partial, Speakers, Translation, Words


def partial_reply(event: Partial) -> PartialReply:
    """Return the client's message for a partial."""
    return PartialReply(
        event.segment, event.committed, event.partial, event.audio_ms, event.language
    )


def final_reply(event: Final) -> FinalReply:
    """Return the client's message for a final."""
    return FinalReply(event.segment, event.text, event.start_ms, event.end_ms, event.language)


def mark_reply(event: Mark) -> SpeechMark:
    """Return the client's message for what endpointing found."""
    at_ms = milliseconds(event.at)
    match event:
        case SpeechStarted():
            return SpeechStartedReply(at_ms)
        case SpeechStopped():
            return SpeechStoppedReply(at_ms)
        case TurnPaused():
            return TurnPausedReply(at_ms, round(event.probability, 3))
        case TurnResumed():
            return TurnResumedReply(at_ms)


def words_reply(event: Words) -> WordsReply:
    """Return the client's message for a segment's words."""
    words = tuple(
        TimedWord(w.word, w.text, w.start_ms, w.end_ms, w.confidence) for w in event.words
    )
    confidence = of_text(word.confidence for word in words)
    return WordsReply(event.segment, words, event.source, event.missing or None, confidence)


def speakers_reply(event: Speakers) -> SpeakersReply:
    """Return the client's message for a segment's speakers."""
    parts = tuple(SpeakerPart(p.speaker, p.start_ms, p.end_ms, p.text) for p in event.parts)
    return SpeakersReply(event.segment, parts, event.source, event.missing or None)


def translation_reply(event: Translation) -> TranslationReply:
    """Return the client's message for a segment's translation."""
    return TranslationReply(
        *(event.segment, event.language, event.committed, event.partial, event.final),
        event.missing or None,
    )
