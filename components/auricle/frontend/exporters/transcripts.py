"""The transcript bus: the text of sessions for other programs.

`nats_bus.NatsBus` publishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from auricle.frontend.audio.chunks import AudioChunk, FeatureChunk
from auricle.frontend.link.processor_link import LinkObserver
from auricle.protocol.annotation import SegmentTranslation
from auricle.protocol.diagnosis import BusState
from auricle.protocol.sessions import SegmentFinal, SegmentPartial, SessionEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TranscriptSource:
    """The source of a text. `part` names one of the processor sessions of a client's session.

    If the client named the `session`, `server_session` is the name that auricle gave it, which no
    other session has.
    """

    tenant: str
    session: str
    part: str = ""
    server_session: str = ""


class TranscriptMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message on the bus, encoded as JSON.

    With `type` `committed`, `text` is the segment's text so far that will not change; with
    `final` it is the segment's whole text. With `translated` it is the unchanging text so far of
    the segment's translation into `language`, a code then, and with `translation` the whole
    translation; `missing` is the reason if there is none. Times are milliseconds of the session's
    audio; a translation has no times of its own. The source's fields are as in `TranscriptSource`.
    """

    type: str
    tenant: str
    session: str
    segment: int
    text: str
    language: str
    audio_ms: int = 0
    part: str = ""
    start_ms: int | None = None
    missing: str = ""
    server_session: str = ""


class TranscriptBus(Protocol):
    """Publishes the text of sessions. Its listeners never block and never raise."""

    def listener(self, spoken: TranscriptSource) -> LinkObserver:
        """Return the observer of one session."""
        ...

    def state(self) -> BusState | None:
        """Return whether the bus takes text; None without a bus."""
        ...


class NoBus:
    """The bus if NATS is not configured: it publishes nothing."""

    def listener(self, spoken: TranscriptSource) -> LinkObserver:
        """Return an observer that discards all events."""
        return TranscriptListener(spoken, lambda _message: None)

    def state(self) -> BusState | None:
        return None


class TranscriptListener:
    """Turns one session's events into messages; a partial that commits no text gives none."""

    def __init__(self, spoken: TranscriptSource, put: Callable[[TranscriptMessage], None]) -> None:
        self._spoken = spoken
        self._put = put
        self._committed = ""
        self._translated: dict[tuple[int, str], str] = {}

    def on_audio(self, piece: AudioChunk | FeatureChunk) -> None:
        """Audio is ignored."""

    def on_event(self, event: SessionEvent) -> None:
        if (message := self._message(event)) is not None:
            self._put(message)

    def _message(self, event: SessionEvent) -> TranscriptMessage | None:
        spoken = self._spoken
        if isinstance(event, SegmentTranslation):
            return self._translation(event)
        if isinstance(event, SegmentFinal):
            self._committed = ""
            return TranscriptMessage(
                type="final",
                tenant=spoken.tenant,
                session=spoken.session,
                part=spoken.part,
                server_session=spoken.server_session,
                segment=event.segment,
                text=event.text,
                language=event.language,
                start_ms=event.start_ms,
                audio_ms=event.end_ms,
            )
        if isinstance(event, SegmentPartial) and event.committed != self._committed:
            self._committed = event.committed
            return TranscriptMessage(
                type="committed",
                tenant=spoken.tenant,
                session=spoken.session,
                part=spoken.part,
                server_session=spoken.server_session,
                segment=event.segment,
                text=event.committed,
                language=event.language,
                audio_ms=event.audio_ms,
            )
        return None

    def _translation(self, event: SegmentTranslation) -> TranscriptMessage | None:
        """Return the message of a translation that has grown, or ended."""
        key = event.segment, event.language
        before = self._translated.pop(key, "")
        if not event.final:
            self._translated[key] = event.committed
            if event.committed == before:
                return None
        return TranscriptMessage(
            type="translation" if event.final else "translated",
            tenant=self._spoken.tenant,
            session=self._spoken.session,
            part=self._spoken.part,
            server_session=self._spoken.server_session,
            segment=event.segment,
            text=event.committed,
            language=event.language,
            missing=event.missing,
        )


# Logs final text. It is used only if the setting `log_transcripts` is on.


class TranscriptLog:
    """Logs the final texts of one session, as an observer of its link."""

    def on_audio(self, piece: AudioChunk | FeatureChunk) -> None:
        """Audio is ignored."""

    def on_event(self, event: SessionEvent) -> None:
        if isinstance(event, SegmentFinal):
            log.info("final text", extra={"text": event.text, "segment": event.segment})
