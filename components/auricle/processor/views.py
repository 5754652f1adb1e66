"""What this processor shows operators: its sessions, and what it has heard of the workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.load.chunk_load import ChunkLoad
from auricle.load.worker_loads import WorkerLoads
from auricle.messages.views import AskView, SeenWorker, SessionState, SessionSteps, View
from auricle.processor.admission import Admission
from auricle.processor.driver import SessionDriver

# More would make an answer of more than 100 KB.
MAX_SESSIONS = 200
MAX_WATCHED = 16


@dataclass(frozen=True)
class Viewed:
    """What is shown. `sessions` are those of the service, in the order in which they opened."""

    sessions: Mapping[str, SessionDriver]
    admission: Admission
    load: ChunkLoad
    pools: tuple[WorkerLoads, ...]
    clock: Callable[[], float] = time.monotonic

    def view(self, request: AskView) -> View:
        """Answer the request; of the sessions asked for, the first 16 count."""
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
