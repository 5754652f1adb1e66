"""What the frontend counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from auricle.settings import FrontendSettings

# Seconds; live text is useful up to a few of them.
_BUCKETS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)


class FrontendMetrics:
    """Sessions, recordings, what was heard, and how long text took."""

    def __init__(self, registry: CollectorRegistry, settings: FrontendSettings) -> None:
        def waiting(name: str, text: str) -> Histogram:
            return Histogram(
                f"auricle_frontend_{name}_seconds", text, buckets=_BUCKETS, registry=registry
            )

        self._chunk_lag = waiting("chunk_lag", "from a grid point's audio to its partial")
        self._first_partial = waiting(
            "first_partial", "from the first audio of speech to its first partial with text"
        )
        self._stop_to_final = waiting(
            "stop_to_final", "from knowing that speech ended to its final text"
        )
        self._audio = Counter(
            "auricle_frontend_audio_seconds",
            "audio of live sessions: received, and the speech that was passed on",
            ["kind"],
            registry=registry,
        )
        self._bytes = Counter(
            "auricle_frontend_received_bytes",
            "audio as clients sent it, by transport",
            ["transport"],
            registry=registry,
        )
        # Looked up once: this is counted for every packet.
        self._received = self._audio.labels("received")
        self._speech = self._audio.labels("speech")
        self._by_transport = {
            name: self._bytes.labels(name) for name in ("websocket", "http", "request_plane")
        }
        limit = Gauge(
            "auricle_frontend_sessions_limit", "sessions that may be open", registry=registry
        )
        limit.set(settings.max_sessions)
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

    def chunk_lag(self, seconds: float) -> None:
        """See timing.py, here and below."""
        self._chunk_lag.observe(seconds)

    def first_partial(self, seconds: float) -> None:
        """See `chunk_lag`."""
        self._first_partial.observe(seconds)

    def stop_to_final(self, seconds: float) -> None:
        """See `chunk_lag`."""
        self._stop_to_final.observe(seconds)

    def audio(self, *, received: float = 0.0, speech: float = 0.0) -> None:
        """Seconds of a live session."""
        if received:
            self._received.inc(received)
        if speech:
            self._speech.inc(speech)

    def bytes(self, transport: str, size: int) -> None:
        """Audio arrived over `websocket`, `http` or `request_plane`."""
        self._by_transport[transport].inc(size)

    def recording_ended(self, result: str) -> None:
        """A transcription request ended."""
        self._recordings_ended.labels(result).inc()

    def ended(self, result: str) -> None:
        """A session ended."""
        self._ended.labels(result).inc()
