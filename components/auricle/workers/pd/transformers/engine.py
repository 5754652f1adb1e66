"""An engine with transformers' modules in a thread of this process: exact and simple, not fast.

One request runs at a time, so its tokens are independent of other requests. vLLM is not needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

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
from auricle.workers.pd.engine import Decoded, GenerateRequest
from auricle.workers.pd.transformers.decoders import decoder_of
from auricle.workers.pd.transformers.jobs import DecodeJob, Jobs, KvSlots
from auricle.workers.pd.transformers.options import TransformersOptions, capabilities
from auricle.workers.pd.transformers.passes import CallerGone, DecoderPasses

log = logging.getLogger(__name__)
# Limit of a step in progress, which may prefill a long prompt.
_STEP_SECONDS = 5.0


class TransformersEngine:
    """A text decoder that takes its audio from `slab`, in a thread of its own.

    The constructor blocks until the model is loaded: call it in a worker thread. It raises
    CheckpointError if the weights do not fit. All other methods must be called on one event loop.
    """

    def __init__(
        self, checkpoint: ModelCheckpoint, options: TransformersOptions, slab: Slab
    ) -> None:
        self.capabilities = capabilities(options.limit_reuse)
        self.state = EngineState()
        self.dead = asyncio.Event()
        self.kv_tokens = options.slots * options.max_model_len
        self.attended = 0  # cross-attention has separate memory
        self._max_model_len = options.max_model_len
        self._ends = end_tokens(checkpoint.path)
        self._geometry = checkpoint.geometry
        self._slab = slab
        self._jobs = Jobs(options.max_waiting)
        self._passes = DecoderPasses(
            decoder_of(checkpoint, options),
            KvSlots(options.slots),
            slab,
            options.max_model_len,
            self.state,
            self._jobs.between_steps,
        )
        self._thread = threading.Thread(target=self._run, name="transformers", daemon=True)
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
                with contextlib.suppress(DeadlineExceeded):
                    await with_timeout(
                        _STEP_SECONDS, asyncio.wait([answer]), "the step in progress"
                    )
            raise

    async def answers(self) -> None:
        """Return once the thread has answered, between two steps."""
        try:
            await asyncio.wrap_future(self._jobs.ping())
        except WorkerUnavailable:
            self.dead.set()
            raise ProcessFailed("the thread of transformers has ended") from None

    async def check_health(self) -> None:
        """Raise ProcessFailed if the thread has ended."""
        if not self._thread.is_alive():
            self.dead.set()
            raise ProcessFailed("the thread of transformers has ended")

    async def close(self) -> None:
        """Fail the waiting requests, and end the thread after its step."""
        self._jobs.close()
        await asyncio.to_thread(self._thread.join, _STEP_SECONDS)

    def _run(self) -> None:
        try:
            self._slab.bind_thread()
            while (job := self._jobs.take()) is not None:
                self._serve(job)
        except BaseException as error:
            log.exception("The thread of transformers ends")
            end_if_sticky(error, "the engine")
            raise
        finally:
            self._jobs.close()

    def _serve(self, job: DecodeJob) -> None:
        """Set a job's outcome. Errors fail only this job, unless the device is broken."""
        try:
            job.outcome.set_result(self._passes.run(job))
        except (AuricleError, CallerGone) as error:
            job.outcome.set_exception(error)
        except Exception as error:
            log.exception("A pass failed")
            end_if_sticky(error, "a pass")
            job.outcome.set_exception(AuricleError("a pass of the text decoder failed"))


def _retrieve(answer: asyncio.Future[Decoded]) -> None:
    """Retrieve an outcome, as asyncio would log an unretrieved exception."""
    if not answer.cancelled():
        answer.exception()
