"""The state of a session's connection to its processor, as a state machine without I/O.

Its inputs are the client's audio (`add`, `finish`) and the processors' answers (`receive`,
`accepted`, `lost`). Its outputs are the messages to processors (`open_message`, `next_message`) and
whether an event is for the client. The audio of the open segment is kept until its text is final.
If the processor is lost, the session is opened on another one at the last resume point, and that
audio is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from auricle.annotation.translation.text import Pairs, followed
from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.audio.chunks import AudioChunk, FeatureChunk
from auricle.protocol.annotation import (
    SegmentSpeakers,
    SegmentTranslation,
    Translating,
    Untranslated,
)
from auricle.protocol.sessions import (
    Accepted,
    EndAudio,
    Failed,
    HandedOver,
    OpenSession,
    PushAudio,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionDone,
    SessionEvent,
    SessionReady,
    WholeAudio,
)

_LARGEST = 10 * SAMPLE_RATE  # most samples in one push


class ReplayBuffer:
    """The audio of a session whose text is not final yet: first the chunks that its processor has
    received, then the waiting ones.

    The processor states how much audio it needs before it can do any work. Less is not worth a
    request and waits here, unless it ends in a pause or an endpoint. `unsent` is the number of
    samples (16 kHz) that the processor has not received.
    """

    def __init__(self) -> None:
        self.unsent = 0
        self._sent: deque[AudioChunk | FeatureChunk] = deque()
        self._waiting: deque[AudioChunk | FeatureChunk] = deque()
        # Waiting chunks that are sent at once: chunks with a boundary, and packets of features.
        self._urgent = 0
        self._wanted = 1
        self._final_before = 0  # session sample up to which text is final
        self._between = True  # nothing was added yet, or the last chunk ended in an endpoint
        self._again = False  # everything kept must be sent to another processor

    def add(self, chunk: AudioChunk | FeatureChunk) -> None:
        """Append the next chunk, split so that no push holds more than 10 s."""
        self._between = chunk.boundary == "endpoint"
        if isinstance(chunk, FeatureChunk):
            self._wait(chunk)
            return
        cuts = range(0, max(len(chunk.pcm), 1), _LARGEST)
        for at in cuts:
            boundary = chunk.boundary if at == cuts[-1] else "none"
            self._wait(AudioChunk(chunk.start + at, chunk.pcm[at : at + _LARGEST], boundary))

    def want(self, samples: int) -> None:
        """The processor has work to do once it has `samples` more."""
        self._wanted = samples

    @property
    def ready(self) -> bool:
        """Whether the waiting chunks are worth a push now."""
        if not self._waiting:
            return False
        return self._again or self._urgent > 0 or self.unsent >= self._wanted

    @property
    def missing(self) -> int:
        """Samples that must still be added before the processor has work to do."""
        return max(0, self._wanted - self.unsent)

    def next(self, *, all_of_it: bool = True) -> AudioChunk | FeatureChunk | None:
        """Return the chunk to send now, or None. Adjacent waiting chunks are joined.

        Returns the same chunk until `sent`. Without `all_of_it`, returns None unless `ready`.
        """
        if not self._waiting or not (all_of_it or self.ready):
            return None
        self._join_waiting()
        return self._waiting[0]

    def whole(self) -> AudioChunk | None:
        """Return everything kept as one chunk, or None if one push cannot hold it.

        Everything counts as not sent then, as after `send_again`.
        """
        self.send_again()
        chunk = self.next()
        return chunk if isinstance(chunk, AudioChunk) and len(self._waiting) == 1 else None

    def sent(self) -> None:
        """The processor has received the chunk that `next` returned."""
        chunk = self._waiting.popleft()
        self._count(chunk, -1)
        self._sent.append(chunk)
        self._again = self._again and bool(self._waiting)

    def forget_before(self, sample: int) -> None:
        """The text before session sample `sample` is final: forget its audio.

        Chunks that were not sent yet are kept, boundaries included.
        """
        if sample > self._final_before:
            self._final_before = sample
            if not self._between:
                # A segment has begun since the processor stated how much it needs, so that number
                # no longer applies: send at once, and the answer has a new one.
                self._wanted = 1
        while self._sent and self._sent[0].end <= sample:
            self._sent.popleft()
        chunks = self._sent or self._waiting
        first = chunks[0] if chunks else None
        if isinstance(first, AudioChunk) and first.start < sample < first.end:
            # A copy: a slice would keep the whole chunk's memory alive.
            chunks[0] = AudioChunk(sample, first.pcm[sample - first.start :].copy(), first.boundary)
            if chunks is self._waiting:
                self.unsent -= sample - first.start

    def send_again(self) -> None:
        """Mark everything kept as not sent, because another processor owns the session now."""
        for chunk in reversed(self._sent):
            self._waiting.appendleft(chunk)
            self._count(chunk, 1)
        self._sent.clear()
        self._again = True

    def _wait(self, chunk: AudioChunk | FeatureChunk) -> None:
        self._waiting.append(chunk)
        self._count(chunk, 1)

    def _count(self, chunk: AudioChunk | FeatureChunk, sign: int) -> None:
        self.unsent += sign * (chunk.end - chunk.start)
        self._urgent += sign * (isinstance(chunk, FeatureChunk) or chunk.boundary != "none")

    def _join_waiting(self) -> None:
        """Join the chunks at the head, up to a boundary, a gap, or the size of one push."""
        first = self._waiting.popleft()
        if isinstance(first, FeatureChunk):
            self._waiting.appendleft(first)
            return
        parts, end, boundary = [first.pcm], first.end, first.boundary
        while boundary == "none" and self._waiting:
            following = self._waiting[0]
            if not isinstance(following, AudioChunk) or following.start != end:
                break
            if following.end - first.start > _LARGEST:
                break
            self._waiting.popleft()
            parts.append(following.pcm)
            end, boundary = following.end, following.boundary
        pcm = first.pcm if len(parts) == 1 else np.concatenate(parts)
        self._waiting.appendleft(AudioChunk(first.start, pcm, boundary))


class SentTranslations:
    """The translations that a session's client has received, for the next processor."""

    def __init__(self, languages: Sequence[str], begun: Translating) -> None:
        """The session continues after `begun`, and is translated into `languages`."""
        self._languages = languages
        self._open = {(one.segment, one.language): one for one in begun.untranslated}
        self._before: dict[str, Pairs] = dict(begun.before)

    def final(self, event: SegmentFinal) -> None:
        """The client receives a segment's final text."""
        if not event.text:
            return
        for language in self._languages:
            sent = self._open.get((event.segment, language))
            committed = "" if sent is None else sent.committed
            self._open[event.segment, language] = Untranslated(
                event.segment, language, committed, event.text, event.language
            )

    def translation(self, event: SegmentTranslation) -> None:
        """The client receives a part of a translation, or its last event."""
        key = event.segment, event.language
        sent = self._open.get(key, Untranslated(*key))
        if not event.final:
            self._open[key] = Untranslated(*key, event.committed, sent.source, sent.spoken)
            return
        self._open.pop(key, None)
        if not event.missing:
            before = self._before.get(event.language, ())
            self._before[event.language] = followed(before, sent.source, event.committed)

    def state(self) -> Translating:
        """Return the translations that are pending, and the last ones that are complete."""
        return Translating(tuple(self._open.values()), dict(self._before))


_AHEAD = 40 * SAMPLE_RATE  # samples that may be unsent before backpressure is applied
# The session fails when this many processors in a row were lost, or full, without text between.
_LOSSES = 4
_PAUSE_SECONDS = 1.0
PROCESSOR_LOST = "processor_lost"  # why words are missing


class SessionLine:
    """The state of one session's connection.

    `connected`: a processor owns the session now. `over`: the last event, SessionDone or Failed,
    was received. `ahead`: the client is ahead of real time; set by the owner.
    """

    def __init__(self, opened: OpenSession) -> None:
        self.connected = False
        self.over = False
        self.ahead = False
        self._opened = opened
        self._session = opened.session  # the session's name on its current processor
        self._kept = ReplayBuffer()
        self._total: int | None = None
        self._end_accepted = False
        self._announced = False
        # Segments whose words and speakers are pending; they are lost with the processor.
        self._pending_words: list[int] = []
        self._pending_speakers: list[int] = []
        self._translations = SentTranslations(opened.translate, opened.resume.translations)
        self._opens = 0
        self._losses = 0

    # ── the client's side ───────────────────────────────────────────────────

    def add(self, chunk: AudioChunk | FeatureChunk) -> None:
        """Append speech. Chunks must come in order."""
        self._kept.add(chunk)

    def finish(self, total_samples: int) -> None:
        """End the audio. The session has `total_samples` (16 kHz), silence included."""
        self._total = total_samples

    def follow(self, context: str, language: str) -> None:
        """Set the text before this session, and its language. Call this before `open_message`."""
        resume = replace(self._opened.resume, context=context, language=language)
        self._opened = replace(self._opened, resume=resume)

    @property
    def full(self) -> bool:
        """Whether to apply backpressure, because 40 s of audio or more are unsent."""
        return self._kept.unsent >= _AHEAD

    @property
    def missing(self) -> int | None:
        """Samples of speech that must still come before there is a message worth sending.

        None if unknown, because no processor has the session.
        """
        if not self.connected:
            return None
        # If a message is on its way, its answer has the number: a chunk at most.
        chunk = self._opened.chunk_ms * SAMPLE_RATE // 1000
        return chunk if self._kept.ready else self._kept.missing

    # ── to the processors ───────────────────────────────────────────────────

    @property
    def session(self) -> str:
        return self._session

    def open_message(self) -> OpenSession:
        """Return the message that opens the session on the next processor."""
        # The name is new each time, because a lost processor may still hold the session.
        name = self._opened.session
        self._session = f"{name}.{self._opens}" if self._opens else name
        self._opens += 1
        self._end_accepted = False
        whole = self._whole() if self._opened.background else None
        resume = replace(self._opened.resume, translations=self._translations.state())
        return replace(self._opened, session=self._session, whole=whole, resume=resume)

    def _whole(self) -> WholeAudio | None:
        """Return all audio of a recording's part, so that no push follows."""
        chunk = None if self._total is None else self._kept.whole()
        if chunk is None or self._total is None:
            return None
        return WholeAudio(chunk.start, _bytes(chunk), chunk.boundary, self._total)

    @property
    def ready(self) -> bool:
        """Whether `next_message` has a message that is worth sending."""
        ends = self._total is not None and not self._end_accepted
        return self.connected and (ends or self._kept.ready)

    def next_message(self) -> PushAudio | EndAudio | None:
        """Return the message to send now, or None. It stays the same until it is `accepted`."""
        if not self.connected:
            return None
        chunk = self._kept.next(all_of_it=self._total is not None)
        tenant = self._opened.tenant
        if chunk is not None:
            packet = chunk.packet if isinstance(chunk, FeatureChunk) else None
            pcm = b"" if isinstance(chunk, FeatureChunk) else _bytes(chunk)
            return PushAudio(
                self._session, tenant, chunk.start, pcm, chunk.boundary, packet, self.ahead
            )
        if self._total is not None and not self._end_accepted:
            return EndAudio(self._session, tenant, self._total)
        return None

    def overdue(self, message: PushAudio | EndAudio) -> bool:
        """The processor did not accept the message in time. Return whether to leave it.

        False if the session has moved meanwhile. Otherwise it gets no more messages, and `lost`
        follows.
        """
        if message.session != self._session or not self.connected:
            return False
        self.connected = False
        return True

    # ── from the processors ─────────────────────────────────────────────────

    def accepted(self, message: PushAudio | EndAudio, reply: Accepted) -> None:
        """The processor accepted the message."""
        if message.session != self._session:
            return  # the session has moved to another processor meanwhile
        if isinstance(message, EndAudio):
            self._end_accepted = True
            return
        self._kept.sent()
        self._kept.want(reply.wanted_samples)

    def receive(self, event: SessionEvent) -> bool:
        """Take the processor's next event; return whether it is for the client."""
        if isinstance(event, SessionReady):
            self.connected = True
            self._kept.send_again()
            self._kept.want(event.wanted_samples)
            if event.whole:
                self._all_received()
            first, self._announced = not self._announced, True
            return first
        if isinstance(event, SegmentPartial | SegmentFinal | HandedOver):
            self._opened = replace(self._opened, resume=event.resume)
            self._kept.forget_before(event.resume.segment_start)
        self._note_pending(event)
        if isinstance(event, HandedOver):
            self.connected = False
            return False
        self._losses = 0
        self.over = isinstance(event, SessionDone | Failed)
        self.connected = not self.over
        return True

    def _all_received(self) -> None:
        """The processor has the audio from the message that opened the session."""
        while self._kept.next() is not None:
            self._kept.sent()
        self._end_accepted = True

    def _note_pending(self, event: SessionEvent) -> None:
        """Note which annotations of a final are pending, and which have arrived."""
        if isinstance(event, SegmentTranslation):
            self._translations.translation(event)
        if isinstance(event, SegmentFinal) and event.text:
            self._pending_words += [event.segment] * self._opened.words
            self._pending_speakers += [event.segment] * self._opened.diarize
            self._translations.final(event)
        elif isinstance(event, SegmentWords) and event.segment in self._pending_words:
            self._pending_words.remove(event.segment)
        elif isinstance(event, SegmentSpeakers):
            resume = replace(self._opened.resume, speakers=event.state)
            self._opened = replace(self._opened, resume=resume)
            if event.segment in self._pending_speakers:
                self._pending_speakers.remove(event.segment)

    def lost_annotations(self) -> list[SegmentWords | SegmentSpeakers]:
        """Return the client's events in place of annotations that were lost with a processor."""
        words, self._pending_words = self._pending_words, []
        speakers, self._pending_speakers = self._pending_speakers, []
        state = self._opened.resume.speakers
        return [
            *(SegmentWords(segment, missing=PROCESSOR_LOST) for segment in words),
            *(
                SegmentSpeakers(segment, missing=PROCESSOR_LOST, state=state)
                for segment in speakers
            ),
        ]

    def lost(self) -> float | None:
        """The processor was lost or full. Return the seconds to wait before trying the next one.

        Returns None if too many were lost in a row.
        """
        self.connected = False
        self._losses += 1
        if self._losses == _LOSSES:
            return None
        return _PAUSE_SECONDS * (self._losses - 1)


def _bytes(chunk: AudioChunk) -> bytes:
    return chunk.pcm.astype("<i2", copy=False).tobytes()
