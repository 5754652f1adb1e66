"""What the processor counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from auricle.messages import Done, Failed, Final, Partial, SessionEvent


class ProcessorMetrics:
    """Sessions, events and the cost of finished sessions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"auricle_processor_{name}", text, registry=registry)

        self.sessions = Gauge("auricle_processor_sessions", "open sessions", registry=registry)
        self.speaking = Gauge(
            "auricle_processor_sessions_speaking", "of them, with speech now", registry=registry
        )
        self.waiting = Gauge(
            "auricle_processor_sessions_waiting",
            "refused, and told to come again later",
            registry=registry,
        )
        self.chunk_seconds = Gauge(
            "auricle_processor_chunk_seconds_p95",
            "95th percentile of the last seconds: from a chunk's audio to its text",
            registry=registry,
        )
        self.refused = counter("sessions_refused", "sessions not let in for lack of room")
        self._partials = counter("partials", "partial results sent")
        self._finals = counter("finals", "segments finished")
        self._done = counter("sessions_done", "sessions that ended well")
        self._failed = Counter(
            "auricle_processor_sessions_failed", "sessions that failed", ["code"], registry=registry
        )
        self._audio = counter("audio_seconds", "audio of finished sessions")
        self._skipped = counter(
            "decodes_skipped", "grid points given up by finished sessions, for lack of room mostly"
        )
        self._windows = counter("windows_encoded", "windows encoded for finished sessions")

    def event(self, event: SessionEvent, start_ms: int) -> None:
        """An event is about to be sent; the session's audio began at `start_ms`."""
        if isinstance(event, Partial):
            self._partials.inc()
        elif isinstance(event, Final):
            self._finals.inc()
        elif isinstance(event, Failed):
            self._failed.labels(event.code).inc()
        elif isinstance(event, Done):
            self._done.inc()
            self._audio.inc((event.usage.audio_ms - start_ms) / 1000)
            self._skipped.inc(event.usage.decodes_skipped)
            self._windows.inc(event.usage.windows_encoded)
