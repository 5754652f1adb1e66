"""What sessions of all protocols are made with."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.errors import UnknownModel
from auricle.frontend.admission import FrontDoor
from auricle.frontend.link import LinkObserver, ProcessorLink
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.processors import ProcessorEndpoints
from auricle.frontend.timing import SessionTimer
from auricle.frontend.transcript_bus import Spoken, TranscriptBus
from auricle.frontend.transcript_log import TranscriptLog
from auricle.frontend.voice import VoiceDetector
from auricle.messages import MAX_CHUNK_MS, OpenSession, ResumePoint
from auricle.settings import FrontendSettings
from auricle.tracing import OFF, Tracer


@dataclass(frozen=True)
class Backend:
    """`models` are the served model's name and its aliases."""

    settings: FrontendSettings
    models: tuple[str, ...]
    endpoints: ProcessorEndpoints
    front_door: FrontDoor
    detector: VoiceDetector
    bus: TranscriptBus
    metrics: FrontendMetrics
    tracer: Tracer = OFF

    @property
    def model(self) -> str:
        """The served model's own name."""
        return self.models[0]

    def chunk_ms(self, wanted: int | None, stretch: int) -> int:
        """A session's cadence: its own or the server's, stretched as it was let in."""
        return min((wanted or self.settings.default_chunk_ms) * stretch, MAX_CHUNK_MS)

    def check_model(self, name: str | None) -> None:
        """Raise UnknownModel unless `name` is served here; None is."""
        if name is not None and name not in self.models:
            raise UnknownModel(name, self.models)

    def link(
        self,
        opened: OpenSession,
        start: ResumePoint | None = None,
        *,
        session: str | None = None,
        part: str = "",
    ) -> ProcessorLink:
        """A session's line to a processor.

        `session` and `part` are its name on the transcript bus, if the client's session
        is made of several of a processor.
        """
        observers: list[LinkObserver] = [
            self.bus.listener(Spoken(opened.tenant, session or opened.session, part))
        ]
        if not opened.background:
            observers.append(SessionTimer(self.metrics))
        if self.settings.log_transcripts:
            observers.append(TranscriptLog())
        return ProcessorLink(
            self.endpoints,
            opened,
            start=start,
            observers=observers,
            tracer=self.tracer,
            deadline_seconds=self.settings.request_deadline_seconds,
            patience_seconds=self.settings.processor_deadline_seconds,
        )
