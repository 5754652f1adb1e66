"""The frontend's Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Histogram

from auricle.config.settings import FrontendSettings
from auricle.process.metrics import ComponentMetrics

# Buckets in seconds. Live text is useful up to a latency of a few seconds.
_BUCKETS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)


class FrontendMetrics:
    """Metrics of sessions, recordings, audio and latency. Call it on the event loop."""

    def __init__(self, registry: CollectorRegistry, settings: FrontendSettings) -> None:
        new = ComponentMetrics(registry, "frontend")

        def waiting(name: str, text: str) -> Histogram:
            return new.histogram(f"{name}_seconds", text, _BUCKETS)

        self._chunk_lag = waiting("chunk_lag", "from a grid point's audio to its partial")
        self._first_partial = waiting(
            "first_partial", "from the first audio of speech to its first partial with text"
        )
        self._stop_to_final = waiting(
            "stop_to_final", "from knowing that speech ended to its final text"
        )
        self._audio = new.counter(
            "audio_seconds",
            "audio of live sessions: received, and the speech that was passed on",
            "kind",
        )
        self._bytes = new.counter(
            "received_bytes", "audio as clients sent it, by transport", "transport"
        )
        # The labels are looked up once, because these are counted for every packet.
        self._received = self._audio.labels("received")
        self._speech = self._audio.labels("speech")
        self._by_transport = {
            name: self._bytes.labels(name)
            for name in ("websocket", "http", "tcp", "grpc", "request_plane")
        }
        new.gauge("sessions_limit", "sessions that may be open").set(settings.max_sessions)
        self.sessions = new.gauge("sessions", "open sessions")
        self._ended = new.counter(
            "sessions_ended",
            "sessions ended, by result (done, client_gone or an error code)",
            "result",
        )
        self._pool_missing = new.gauge(
            "pool_missing", "1 while a pool that the settings promise has no worker", "pool"
        )
        self._resumed = new.counter("sessions_resumed", "sessions that clients resumed here")
        self.connections = new.gauge("connections", "open connections")
        self._connections_ended = new.counter(
            "connections_ended",
            "connections ended to make room for others, or because of a flood",
            "reason",
        )
        self.unadmitted_bytes = new.gauge(
            "unadmitted_bytes", "bytes held for requests that were not admitted"
        )
        self.uploads = new.gauge("uploads", "uploads in progress")
        self.stored = new.gauge("stored_upload_bytes", "uploads on disk, complete or not")
        self.recordings = new.gauge("recordings", "complete uploads in progress or waiting")
        self._recordings_ended = new.counter(
            "recordings_ended",
            "recordings ended, by result (done, client_gone or an error code)",
            "result",
        )

        by_state = "jobs in the folder, which frontends may share, by state"
        self._jobs = new.gauge("jobs", by_state, "state")
        self._oldest_job = new.gauge("oldest_job_seconds", "age of the oldest queued job")

    def jobs(self, counts: Mapping[str, int], oldest_seconds: float) -> None:
        """Set the number of jobs by state, and the age of the oldest one in the queue."""
        for state, number in counts.items():
            self._jobs.labels(state).set(number)
        self._oldest_job.set(oldest_seconds)

    def pools(self, kinds: Iterable[str], missing: Callable[[], Container[str]]) -> None:
        """Export which pools of these `kinds` are among the `missing` ones."""

        def state(kind: str) -> float:
            return float(kind in missing())

        for kind in kinds:
            self._pool_missing.labels(kind).set_function(partial(state, kind))

    def chunk_lag(self, seconds: float) -> None:
        self._chunk_lag.observe(seconds)

    def first_partial(self, seconds: float) -> None:
        self._first_partial.observe(seconds)

    def stop_to_final(self, seconds: float) -> None:
        self._stop_to_final.observe(seconds)

    def audio(self, *, received: float = 0.0, speech: float = 0.0) -> None:
        """Count seconds of audio of a live session: received, and passed on as speech."""
        if received:
            self._received.inc(received)
        if speech:
            self._speech.inc(speech)

    def bytes(self, transport: str, size: int) -> None:
        """Count bytes of audio over a transport: `websocket`, `http`, `tcp`, `grpc` or
        `request_plane`."""
        self._by_transport[transport].inc(size)

    def resumed(self) -> None:
        self._resumed.inc()

    def connection_ended(self, reason: str) -> None:
        self._connections_ended.labels(reason).inc()

    def recording_ended(self, result: str) -> None:
        self._recordings_ended.labels(result).inc()

    def ended(self, result: str) -> None:
        self._ended.labels(result).inc()
