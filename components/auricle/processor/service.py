"""The processor's endpoints: open, push, end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext

from auricle.audio.features import check_features
from auricle.audio.pcm import milliseconds
from auricle.errors import BadRequest, Overloaded, ProtocolError, WorkerUnavailable
from auricle.load_reports import ProcessorLoad
from auricle.messages import (
    MAX_CHUNK_MS,
    MIN_CHUNK_MS,
    Accepted,
    AdmitSession,
    Admitted,
    EndAudio,
    OpenSession,
    PushAudio,
    SessionEvent,
)
from auricle.processor.load import ChunkLoad
from auricle.processor.metrics import ProcessorMetrics
from auricle.processor.pacing import Admission, AdmissionLimits
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.processor.session import CheckpointView, Session
from auricle.settings import ProcessorSettings
from auricle.tracing import Tracer

_PUSH_WAIT_SECONDS = 30.0


class ProcessorService:
    """All sessions of this process, at most `max_sessions`."""

    def __init__(
        self,
        settings: ProcessorSettings,
        checkpoint: CheckpointView,
        encode_pool: EncodePool,
        pd_pool: PdPool,
        metrics: ProcessorMetrics,
        tracer: Tracer,
    ) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._encode_pool = encode_pool
        self._pd_pool = pd_pool
        self._metrics = metrics
        self._tracer = tracer
        self._sessions: dict[str, Session] = {}
        self._leaving = False
        self._load = ChunkLoad(settings.target_chunk_ms / 1000)
        limits = AdmissionLimits(settings.max_sessions, settings.assured_sessions)
        self._admission = Admission(limits, self._load)
        metrics.sessions.set_function(lambda: len(self._sessions))
        metrics.speaking.set_function(lambda: self.speaking)
        metrics.waiting.set_function(lambda: self._admission.waiting)
        metrics.chunk_seconds.set_function(lambda: self._load.seconds)

    def leave(self) -> int:
        """Take no more sessions and give away those there are; how many are left."""
        self._leaving = True
        for session in self._sessions.values():
            session.hand_over()
        return len(self._sessions)

    @property
    def speaking(self) -> int:
        """Sessions in which somebody speaks now."""
        return sum(session.speaking for session in self._sessions.values())

    def load(self, instance: int, seconds: float, *, draining: bool) -> ProcessorLoad:
        """A report; `seconds` since the last one."""
        return ProcessorLoad(
            instance=instance,
            seconds=seconds,
            sessions=len(self._sessions),
            speaking=self.speaking,
            waiting=self._admission.waiting,
            chunk_seconds=self._load.seconds,
            draining=draining,
        )

    async def admit(self, _request: AdmitSession) -> Admitted:
        """Before a client's session; recordings and moved sessions are not asked about."""
        self._check_staying()
        try:
            self._admission.admit()
        except Overloaded:
            self._metrics.refused.inc()
            raise
        return Admitted(self._admission.stretch)

    async def open(self, request: OpenSession) -> AsyncGenerator[SessionEvent, None]:
        """The session's events; it lives as long as they are taken."""
        self._check_staying()
        self._admission.check_room(len(self._sessions))
        if request.session in self._sessions:
            raise ProtocolError(f"session {request.session} is open already")
        if not MIN_CHUNK_MS <= request.chunk_ms <= MAX_CHUNK_MS:
            raise BadRequest(
                f"chunk_ms {request.chunk_ms} is outside {MIN_CHUNK_MS} to {MAX_CHUNK_MS}"
            )
        recognizer = Recognizer(
            request.session,
            request.tenant,
            self._encode_pool,
            self._pd_pool,
            background=request.background,
            tracer=self._tracer,
        )
        session = Session(
            request, self._settings, self._checkpoint, recognizer, self._load, self._tracer
        )
        self._sessions[request.session] = session
        start_ms = milliseconds(request.resume.segment_start)
        live = nullcontext() if request.background else self._admission.live()
        try:
            with live:
                async with aclosing(session.events()) as events:
                    async for event in events:
                        self._metrics.event(event, start_ms)
                        yield event
        finally:
            del self._sessions[request.session]

    async def push(self, request: PushAudio) -> Accepted:
        """Take audio; waits while the session's buffer is full."""
        inbox = self._find(request.session, request.tenant).inbox
        if request.features is not None:
            check_features(request.features, self._settings.max_segment_seconds)
        received = await inbox.push(
            request.start_sample,
            request.pcm,
            _PUSH_WAIT_SECONDS,
            request.boundary,
            request.features,
        )
        return Accepted(received)

    async def end(self, request: EndAudio) -> Accepted:
        """No more audio will come."""
        session = self._find(request.session, request.tenant)
        return Accepted(session.inbox.end(request.total_samples))

    def _check_staying(self) -> None:
        if self._leaving:
            raise WorkerUnavailable("this processor is about to go")

    def _find(self, name: str, tenant: str) -> Session:
        session = self._sessions.get(name)
        if session is None or session.tenant != tenant:
            raise ProtocolError(f"no session {name} is open here")
        return session
