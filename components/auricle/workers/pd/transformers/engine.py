"""An engine with transformers' modules in a thread of this process: exact and simple, not fast.

One request runs at a time, so its tokens are independent of other requests: the new part of its
prompt, then a token per step. vLLM is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from auricle.checkpoints.files import ModelCheckpoint
from auricle.core.errors import AuricleError, WindowsMissing, WorkerUnavailable
from auricle.embeddings.slab import Slab
from auricle.load.reporter import EngineState
from auricle.workers.pd.engine import Decoded, GenerateRequest, Timings
from auricle.workers.pd.jobs import DecodeJob
from auricle.workers.pd.threaded import CallerGone, ThreadedEngine
from auricle.workers.pd.transformers.decoders import Decoder, decoder_of
from auricle.workers.pd.transformers.kv_slots import KvSlots, Prefix
from auricle.workers.pd.transformers.options import TransformersOptions, capabilities


@dataclass
class _Output:
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)  # monotonic seconds

    def add(self, logits: torch.Tensor, never: torch.Tensor, request: GenerateRequest) -> int:
        """Append the likeliest allowed token, the first of equal ones.

        Raises AuricleError if the logits are not finite.
        """
        if not bool(torch.isfinite(logits).all()):
            raise AuricleError("the text decoder produced values that are not finite")
        logits = logits.index_fill(0, never, -torch.inf)
        if request.allowed:
            others = torch.ones_like(logits, dtype=torch.bool)
            others[list(request.allowed)] = False
            logits = logits.masked_fill(others, -torch.inf)
        token = int(logits.argmax())
        self.tokens.append(token)
        if request.logprobs:
            self.logprobs.append(float(torch.log_softmax(logits, -1)[token]))
        self.at.append(time.monotonic())
        return token


class DecoderPasses:
    """Runs jobs on a decoder with `slots`, for one thread; updates `state`.

    `between_steps` is called after each step, and returns False once the engine is closed.
    """

    def __init__(
        self,
        decoder: Decoder,
        slots: KvSlots,
        slab: Slab,
        max_model_len: int,
        state: EngineState,
        between_steps: Callable[[], bool],
    ) -> None:
        self._decoder, self._slots, self._slab = decoder, slots, slab
        self._max_model_len = max_model_len
        self._state, self._between_steps = state, between_steps

    def joins(self, taken: Sequence[DecodeJob], job: DecodeJob) -> bool:
        return False  # one at a time

    def run(self, jobs: Sequence[DecodeJob]) -> None:
        """Decode jobs, one after the other.

        Raises WindowsMissing naming a window whose slot does not hold it, CallerGone, and
        WorkerUnavailable if the engine is closed.
        """
        for job in jobs:
            job.outcome.set_result(self._decoded(job))

    def _decoded(self, job: DecodeJob) -> Decoded:
        scheduled = time.monotonic()
        request = job.request
        prompt = Prefix(
            request.tenant,
            tuple(request.head),
            tuple(w.key for w in request.windows),
            tuple(w.length for w in request.windows),
        )
        # At least one token must remain to compute, for the first logits.
        leading = prompt if request.tail else prompt.first(len(request.windows) - 1)
        slot, held = self._slots.take(leading)
        keep: Prefix | None = None
        self._state.kv_usage = self._slots.in_use / self._slots.count
        try:
            output, finish = self._decode(job, slot, held)
            keep = prompt.first(job.reusable_windows)
        finally:
            self._slots.give_back(slot, keep)
            self._state.kv_usage = self._slots.in_use / self._slots.count
        return Decoded(
            tokens=tuple(output.tokens),
            finish=finish,
            prompt_tokens=job.prompt_tokens,
            cached_tokens=held.tokens,
            steps=len(output.tokens),
            draft_tokens=0,
            accepted_tokens=0,
            timings=Timings(job.queued, scheduled, output.at[0], output.at[-1]),
            logprobs=tuple(output.logprobs),
        )

    def _decode(self, job: DecodeJob, slot: int, held: Prefix) -> tuple[_Output, str]:
        cache = self._decoder.slot(slot, held.tokens)
        embeddings = self._decoder.embedded(list(self._new_pieces(job.request, held)))
        limit = min(job.request.max_tokens, self._max_model_len - job.prompt_tokens)
        output = _Output()
        while True:
            self._check(job)
            began = time.monotonic()
            logits = self._decoder.step(embeddings, cache)
            token = output.add(logits, self._decoder.suppressed, job.request)
            if output.tokens[1:]:  # without the prompt's pass
                self._state.stepped(output.at[-1] - began)
            if token in job.stop_tokens:
                return output, "stop"
            if len(output.tokens) >= limit:
                return output, "length"
            embeddings = self._decoder.embedded([[token]])

    def _new_pieces(
        self, request: GenerateRequest, held: Prefix
    ) -> Iterator[Sequence[int] | torch.Tensor]:
        if not held.tokens and request.head:
            yield request.head
        new = request.windows[len(held.keys) :]
        for window in new:
            wrong = self._slab.mismatch(window.slot, window.key, window.generation, window.length)
            if wrong is not None:
                raise WindowsMissing((window.key,), wrong)
        if new:
            gathered = self._slab.gather([(w.slot, w.length) for w in new])
            self._slab.synchronize()
            yield from map(torch.as_tensor, gathered)
        if request.tail:
            yield request.tail

    def _check(self, job: DecodeJob) -> None:
        if not self._between_steps():
            raise WorkerUnavailable("the engine of this PD worker is closed")
        if job.withdrawn:
            raise CallerGone


class TransformersEngine(ThreadedEngine):
    """A text decoder that takes its audio from `slab`; see `ThreadedEngine`."""

    def __init__(
        self, checkpoint: ModelCheckpoint, options: TransformersOptions, slab: Slab
    ) -> None:
        decoder = decoder_of(checkpoint, options)
        slots = KvSlots(options.slots)
        super().__init__(
            "transformers",
            checkpoint,
            capabilities(options.limit_reuse),
            slab,
            max_waiting=options.max_waiting,
            max_model_len=options.max_model_len,
            kv_tokens=options.slots * options.max_model_len,
            passes=lambda state, between_steps: DecoderPasses(
                decoder, slots, slab, options.max_model_len, state, between_steps
            ),
        )
