"""What the frontend counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class FrontendMetrics:
    """Open sessions, and how sessions ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sessions = Gauge("auricle_frontend_sessions", "open sessions", registry=registry)
        self._ended = Counter(
            "auricle_frontend_sessions_ended",
            "sessions ended, by result (done, client_gone or an error code)",
            ["result"],
            registry=registry,
        )

        self.recordings = Gauge(
            "auricle_frontend_recordings", "uploads in work or waiting", registry=registry
        )
        self._recordings_ended = Counter(
            "auricle_frontend_recordings_ended",
            "recordings ended, by result (done, client_gone or an error code)",
            ["result"],
            registry=registry,
        )

    def recording_ended(self, result: str) -> None:
        """A transcription request ended."""
        self._recordings_ended.labels(result).inc()

    def ended(self, result: str) -> None:
        """A session ended."""
        self._ended.labels(result).inc()
