"""The processor's Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.process.metrics import ComponentMetrics
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation
from auricle.protocol.sessions import (
    Failed,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionDone,
    SessionEvent,
)


class ProcessorMetrics:
    """Metrics of sessions, of their events, and of the cost of finished sessions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "processor")
        self.sessions = new.gauge("sessions", "open sessions")
        self.speaking = new.gauge("sessions_speaking", "open sessions with speech at present")
        self.waiting = new.gauge(
            "sessions_waiting", "clients that were refused lately and told when to retry"
        )
        self.active = new.gauge(
            "sessions_active", "live sessions that spoke within 10 s or have just begun"
        )
        self.admitted = new.gauge(
            "sessions_admitted", "limit of active sessions; 0 while text is later than the target"
        )
        self.rare_seconds = new.gauge(
            "chunk_seconds_p997",
            "99.7th percentile of the latest chunks, by which admission decides",
        )
        self.chunk_seconds = new.gauge(
            "chunk_seconds_p95", "95th percentile of recent chunks: from audio to text"
        )
        self.refused = new.counter("sessions_refused", "sessions refused as overloaded")
        self._partials = new.counter("partials", "partial results sent")
        self._finals = new.counter("finals", "segments finished")
        self.asking = new.gauge(
            "sessions_asking", "open sessions that ask for more than text, by what", "asked"
        )
        self._words = new.counter(
            "segments_with_words", "segments whose words were sent, by source", "source"
        )
        self._wordless = new.counter(
            "segments_without_words", "segments without aligned words, by reason", "reason"
        )
        self._speakers = new.counter("segments_with_speakers", "segments whose speakers were sent")
        self._speakerless = new.counter(
            "segments_without_speakers", "segments without speakers, by reason", "reason"
        )
        self._translated = new.counter(
            "segments_translated", "segments whose translation was sent, one for each language"
        )
        self._untranslated = new.counter(
            "segments_untranslated",
            "segments whose translation is missing or not whole, by reason",
            "reason",
        )
        self._done = new.counter("sessions_done", "sessions that ended without an error")
        self._failed = new.counter("sessions_failed", "sessions that failed, by error code", "code")
        self._audio = new.counter("audio_seconds", "audio of finished sessions")
        self._skipped = new.counter(
            "decodes_skipped", "grid points that finished sessions skipped, mostly under load"
        )
        self._windows = new.counter("windows_encoded", "windows encoded for finished sessions")

    def event(self, event: SessionEvent, start_ms: int) -> None:
        """Count an event that is about to be sent; the session's audio began at `start_ms`."""
        if isinstance(event, SegmentPartial):
            self._partials.inc()
        elif isinstance(event, SegmentFinal):
            self._finals.inc()
        elif isinstance(event, Failed):
            self._failed.labels(event.code).inc()
        elif isinstance(event, SessionDone):
            self._done.inc()
            self._audio.inc((event.usage.audio_ms - start_ms) / 1000)
            self._skipped.inc(event.usage.decodes_skipped)
            self._windows.inc(event.usage.windows_encoded)
        else:
            self._annotation(event)

    def _annotation(self, event: SessionEvent) -> None:
        """Count the result of an optional pool."""
        if isinstance(event, SegmentWords):
            if event.source is not None:
                self._words.labels(event.source).inc()
            if event.missing:
                self._wordless.labels(event.missing).inc()
        elif isinstance(event, SegmentSpeakers):
            if event.missing:
                self._speakerless.labels(event.missing).inc()
            else:
                self._speakers.inc()
        elif isinstance(event, SegmentTranslation):
            if event.missing:
                self._untranslated.labels(event.missing).inc()
            elif event.final:
                self._translated.inc()
