"""The part of an engine in a thread of this process that is independent of its library."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.text_model import end_tokens
from auricle.core.aio import with_timeout
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    ProcessFailed,
    WorkerUnavailable,
)
from auricle.embeddings.slab import Slab
from auricle.load.reporter import EngineState
from auricle.process.device_faults import end_if_sticky
from auricle.workers.pd.engine import Decoded, EngineCapabilities, GenerateRequest
from auricle.workers.pd.jobs import DecodeJob, Jobs

log = logging.getLogger(__name__)
# Limit of a step in progress, which may prefill a long prompt.
_STEP_SECONDS = 5.0


class CallerGone(Exception):
    """The job's caller was cancelled."""


class JobPasses(Protocol):
    """Runs jobs on a model. For one thread."""

    def joins(self, taken: Sequence[DecodeJob], job: DecodeJob) -> bool:
        """Return whether a job can be computed together with those that are `taken`."""
        ...

    def run(self, jobs: Sequence[DecodeJob]) -> None:
        """Compute jobs and set their outcomes. An error fails those that have none yet."""
        ...


class ThreadedEngine:
    """An engine whose model is computed in a thread of this process.

    The constructor blocks until the model is loaded: call it in a worker thread. It raises
    CheckpointError if the weights do not fit. All other methods must be called on one event loop.
    """

    attended = 0  # cross-attention has memory of its own

    def __init__(
        self,
        name: str,
        checkpoint: ModelCheckpoint,
        capabilities: EngineCapabilities,
        slab: Slab,
        *,
        max_waiting: int,
        max_model_len: int,
        kv_tokens: int,
        passes: Callable[[EngineState, Callable[[], bool]], JobPasses],
    ) -> None:
        """`passes` returns the model's passes, given the state that they update and a function to
        call between two steps, which returns False once the engine is closed.
        """
        self.capabilities = capabilities
        self.state = EngineState()
        self.dead = asyncio.Event()
        self.kv_tokens = kv_tokens
        self._name = name
        self._max_model_len = max_model_len
        self._ends = end_tokens(checkpoint.path)
        self._geometry = checkpoint.geometry
        self._slab = slab
        self._jobs = Jobs(max_waiting)
        self._passes = passes(self.state, self._jobs.between_steps)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def generate(self, request: GenerateRequest) -> Decoded:
        """See `Engine.generate`. Raises Overloaded if too many requests wait."""
        if request.draft:
            raise ValueError("this engine declares no drafts and was given one")
        in_prompt = sum(self._geometry.prompt_tokens(w.length) for w in request.windows)
        job = DecodeJob(
            request,
            stop_tokens=frozenset(request.stop_tokens) | self._ends,
            reusable_windows=self._reusable(request),
            prompt_tokens=len(request.head) + in_prompt + len(request.tail),
        )
        if job.prompt_tokens >= self._max_model_len:
            raise BadRequest(
                f"a prompt of {job.prompt_tokens} tokens leaves no room for output "
                f"in max_model_len {self._max_model_len}"
            )
        try:
            self._jobs.put(job)
            return await self._outcome(job)
        except WorkerUnavailable:
            self.dead.set()
            raise

    def _reusable(self, request: GenerateRequest) -> int:
        if request.reusable_windows is not None and self.capabilities.limited_reuse:
            return request.reusable_windows
        return sum(self._geometry.prompt_tokens(w.length) > 0 for w in request.windows)

    async def _outcome(self, job: DecodeJob) -> Decoded:
        answer = asyncio.wrap_future(job.outcome)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(_retrieve)
            if not self._jobs.withdraw(job):
                # A pass may still read the request's slots, so they must stay pinned.
                copied = asyncio.wrap_future(job.copied)
                answer.add_done_callback(lambda _: copied.cancel())
                with contextlib.suppress(DeadlineExceeded):
                    await with_timeout(
                        _STEP_SECONDS, asyncio.wait([copied]), "the step in progress"
                    )
            raise

    async def answers(self) -> None:
        """Return once the thread has answered, between two steps."""
        try:
            await asyncio.wrap_future(self._jobs.ping())
        except WorkerUnavailable:
            self.dead.set()
            raise ProcessFailed(f"the thread of {self._name} has ended") from None

    async def check_health(self) -> None:
        """Raise ProcessFailed if the thread has ended."""
        if not self._thread.is_alive():
            self.dead.set()
            raise ProcessFailed(f"the thread of {self._name} has ended")

    async def close(self) -> None:
        """Fail the waiting requests, and end the thread after its step."""
        self._jobs.close()
        await asyncio.to_thread(self._thread.join, _STEP_SECONDS)

    def _run(self) -> None:
        try:
            self._slab.bind_thread()
            while jobs := self._jobs.take(self._passes.joins):
                self._serve(jobs)
        except BaseException as error:
            log.exception("The thread of %s ends", self._name)
            end_if_sticky(error, "the engine")
            raise
        finally:
            self._jobs.close()

    def _serve(self, jobs: Sequence[DecodeJob]) -> None:
        """Set the outcomes of jobs. Errors fail only these, unless the device is broken."""
        failed: Exception
        try:
            self._passes.run(jobs)
            return
        except (AuricleError, CallerGone) as error:
            failed = error
        except Exception as error:
            log.exception("A pass failed")
            end_if_sticky(error, "a pass")
            failed = AuricleError("a pass of the text decoder failed")
        for job in jobs:
            if not job.outcome.done():
                job.outcome.set_exception(failed)


def _retrieve(answer: asyncio.Future[Decoded]) -> None:
    """Retrieve an outcome, as asyncio would log an unretrieved exception."""
    if not answer.cancelled():
        answer.exception()
