"""The processor's endpoints: admit, withdraw, open, push, end, view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.features import check_features
from auricle.audio.pcm import milliseconds
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import (
    BadRequest,
    Overloaded,
    ProtocolError,
    UnknownSession,
    WorkerUnavailable,
)
from auricle.load.chunk_load import ChunkLoad
from auricle.load.report_cache import WorkerLoads
from auricle.load.reports import ProcessorLoad
from auricle.process.tracing import Tracer
from auricle.processor.admission import AdaptiveLimit, Admission
from auricle.processor.annotators.sessions import ANNOTATIONS, Annotators, SessionAnnotator
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.leases import FrontendLeases
from auricle.processor.metrics import ProcessorMetrics
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.processor.session.open_segment import EndedSegment
from auricle.protocol import OLDEST_WIRE, WIRE
from auricle.protocol.diagnosis import LoadNow
from auricle.protocol.sessions import (
    MAX_CHUNK_MS,
    MIN_CHUNK_MS,
    Accepted,
    AdmitSession,
    Admitted,
    EndAudio,
    OpenSession,
    PushAudio,
    SessionEvent,
    WithdrawAdmission,
    Withdrawn,
)
from auricle.protocol.views import AskView, SeenWorker, SessionState, SessionSteps, View

# The reply to AskView stays below 100 KB.
MAX_SESSIONS = 200
MAX_WATCHED = 16


@dataclass(frozen=True)
class Viewed:
    """Shows operators this processor's sessions, in order of opening, and its workers' reports."""

    sessions: Mapping[str, SessionDriver]
    admission: Admission
    load: ChunkLoad
    pools: tuple[WorkerLoads, ...]
    clock: Callable[[], float] = time.monotonic

    def view(self, request: AskView) -> View:
        """Return the view, with the steps of the first 16 requested sessions."""
        asked = [name for name in request.steps_of[:MAX_WATCHED] if name in self.sessions]
        others = [name for name in self.sessions if name not in asked]
        shown = asked + others[: MAX_SESSIONS - len(asked)]
        return View(
            sessions=tuple(self._state(name, self.sessions[name]) for name in shown),
            others=len(self.sessions) - len(shown),
            speaking=sum(driver.speaking for driver in self.sessions.values()),
            waiting=self.admission.waiting,
            limit=self.admission.limit,
            chunk_seconds=self.load.seconds,
            steps=tuple(SessionSteps(name, self.sessions[name].steps.watch()) for name in asked),
            workers=tuple(worker for pool in self.pools for worker in _seen(pool)),
        )

    def _state(self, name: str, driver: SessionDriver) -> SessionState:
        segment = driver.session.segment
        encode_worker, pd_worker = driver.recognizer.workers
        return SessionState(
            session=name,
            tenant=driver.tenant,
            open_seconds=self.clock() - driver.opened_at,
            audio_seconds=driver.session.inbox.received / SAMPLE_RATE,
            segment=segment.number,
            segment_seconds=segment.audio.samples / SAMPLE_RATE,
            speaking=driver.speaking,
            background=driver.background,
            decodes=driver.usage.decodes,
            decodes_skipped=driver.usage.decodes_skipped,
            chunk_seconds=driver.steps.last_seconds,
            encode_worker=encode_worker,
            pd_worker=pd_worker,
        )


def _seen(pool: WorkerLoads) -> Iterator[SeenWorker]:
    for age, load in pool.seen():
        yield SeenWorker(
            component=load.kind,
            instance=f"{load.instance:x}",
            age_seconds=age,
            every_seconds=load.seconds,
            busy=load.busy,
            requests_per_second=load.requests_per_second,
            refused_per_second=load.refused_per_second,
            failed_per_second=load.failed_per_second,
            response_seconds=load.response_seconds,
            queue_wait_seconds=load.queue_wait_seconds,
            slots_used=load.slots_used,
            slots=load.slots_total,
            kv_usage=load.kv_usage,
            step_seconds=load.step_seconds,
            draining=load.draining,
        )


_PUSH_WAIT_SECONDS = 30.0


class ProcessorService:
    """Owns all sessions of this process, at most `max_sessions`.

    Not thread-safe: all methods must be called on the event loop.
    """

    def __init__(
        self,
        settings: ProcessorSettings,
        checkpoint: CheckpointView,
        encode_pool: EncodePool,
        pd_pool: PdPool,
        metrics: ProcessorMetrics,
        tracer: Tracer,
        annotators: Annotators,
    ) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._encode_pool = encode_pool
        self._pd_pool = pd_pool
        self._metrics = metrics
        self._tracer = tracer
        self._sessions: dict[str, SessionDriver] = {}
        self.leases = FrontendLeases()
        self._leaving = False
        self._ahead_turns = asyncio.Semaphore(settings.ahead_decodes)
        self._annotators = annotators
        self._load = ChunkLoad(settings.target_chunk_ms / 1000)
        learnt = settings.admission == "learnt"
        limit = AdaptiveLimit(settings.target_chunk_ms / 1000) if learnt else None
        self._admission = Admission(settings.max_sessions, self._load, limit)
        pools = (encode_pool.loads, pd_pool.loads)
        self._viewed = Viewed(self._sessions, self._admission, self._load, pools)
        metrics.sessions.set_function(lambda: len(self._sessions))
        metrics.speaking.set_function(lambda: self.speaking)
        metrics.waiting.set_function(lambda: self._admission.waiting)
        metrics.active.set_function(lambda: self._admission.active)
        metrics.admitted.set_function(lambda: self._admission.limit)
        metrics.chunk_seconds.set_function(lambda: self._load.seconds)
        metrics.rare_seconds.set_function(lambda: self._load.tail.p997)
        for name in ANNOTATIONS:
            metrics.asking.labels(name).set_function(
                partial(self._annotators.demand.sessions.__getitem__, name)
            )

    def leave(self) -> int:
        """Refuse new sessions, hand over the open ones, and return how many are still open."""
        self._leaving = True
        for driver in self._sessions.values():
            driver.hand_over()
        return len(self._sessions)

    @property
    def speaking(self) -> int:
        """The number of sessions whose open segment has audio."""
        return sum(driver.speaking for driver in self._sessions.values())

    @property
    def load_now(self) -> LoadNow:
        """The open sessions, and how many live ones are admitted."""
        return LoadNow("sessions", len(self._sessions), self._admission.limit)

    def load(self, instance: int, seconds: float, *, draining: bool) -> ProcessorLoad:
        """Return this instance's load report; `seconds` is the interval between reports."""
        return ProcessorLoad(
            instance=instance,
            seconds=seconds,
            sessions=len(self._sessions),
            speaking=self.speaking,
            waiting=self._admission.waiting,
            chunk_seconds=self._load.seconds,
            draining=draining,
            asked=self._annotators.demand.take(),
            wires=(OLDEST_WIRE, WIRE),
        )

    async def view(self, request: AskView) -> View:
        """Show the sessions and workers to an operator."""
        return self._viewed.view(request)

    async def admit(self, request: AdmitSession) -> Admitted:
        """Admit a live session before it is opened; recordings and moved sessions need not ask.

        Raises Overloaded with a retry time, and WorkerUnavailable while draining.
        """
        self._check_staying()
        try:
            self._admission.admit(
                request.admission,
                request.client,
                priority=request.priority,
                resumes=request.resumes,
                others=request.others,
                bounded=request.bounded,
            )
        except Overloaded:
            self._metrics.refused.inc()
            raise
        return Admitted()

    async def withdraw(self, request: WithdrawAdmission) -> Withdrawn:
        """Expect an admitted session no longer."""
        self._admission.withdraw(request.admission)
        return Withdrawn()

    async def open(self, request: OpenSession) -> AsyncGenerator[SessionEvent, None]:
        """Open a session and yield its events; closing the generator ends the session.

        Raises Overloaded at `max_sessions`, WorkerUnavailable while draining, ProtocolError if
        the session is open already, and BadRequest for an unsupported chunk or language, or for
        words, speakers or translations without their pool.
        """
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
        annotators = self._annotators.requested(request)
        driver = SessionDriver(
            request,
            self._settings,
            self._checkpoint,
            recognizer,
            self._load,
            self._tracer,
            ahead_turns=self._ahead_turns,
            on_segment=partial(_ended, tuple(annotators.values())),
        )
        merged = driver.events()
        for annotator in annotators.values():
            merged = annotator.merged(merged)
        self._sessions[request.session] = driver
        start_ms = milliseconds(request.resume.segment_start)
        live = (
            nullcontext()
            if request.background
            else self._admission.live(request.admission, lambda: driver.speaking, driver.fail)
        )
        try:
            with live, ExitStack() as held:
                held.enter_context(
                    self.leases.session(request.frontend, request.session, driver.hand_over)
                )
                for name in annotators:
                    held.enter_context(self._annotators.demand.session(name))
                async with aclosing(merged) as events:
                    async for event in events:
                        self._admission.observe()
                        self._metrics.event(event, start_ms)
                        yield event
        finally:
            del self._sessions[request.session]

    async def push(self, request: PushAudio) -> Accepted:
        """Receive audio; wait up to 30 s while the session's inbox is full (backpressure).

        Raises UnknownSession, ProtocolError on audio out of order, BadRequest for features of
        the wrong form, and Overloaded if the inbox stays full.
        """
        driver = self._find(request.session, request.tenant)
        self.leases.heard(driver.frontend)
        if request.features is not None:
            check_features(request.features, self._settings.max_segment_seconds)
        return await driver.push(
            request.start_sample,
            request.pcm,
            _PUSH_WAIT_SECONDS,
            request.boundary,
            request.features,
            ahead=request.ahead,
        )

    async def end(self, request: EndAudio) -> Accepted:
        """Declare the session's audio complete. Raises UnknownSession and ProtocolError."""
        return self._find(request.session, request.tenant).end(request.total_samples)

    def _check_staying(self) -> None:
        if self._leaving:
            raise WorkerUnavailable("this processor is draining and takes no new sessions")

    def _find(self, name: str, tenant: str) -> SessionDriver:
        driver = self._sessions.get(name)
        if driver is None or driver.tenant != tenant:
            raise UnknownSession(f"no session {name} is open here")
        return driver


def _ended(annotators: Sequence[SessionAnnotator], segment: EndedSegment) -> None:
    for annotator in annotators:
        annotator.ended(segment)
