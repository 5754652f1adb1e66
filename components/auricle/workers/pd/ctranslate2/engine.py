"""An engine with CTranslate2 in a thread of this process: Whisper on a CPU.

CTranslate2 decodes a batch from its prompts to the last token in one call, which cannot be stopped.
Embeddings are copied before it, so the slots of a cancelled request are free at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.whole_chunks import positions_attended
from auricle.core.errors import AuricleError, BadRequest, WindowsMissing, WorkerUnavailable
from auricle.embeddings.slab import Slab
from auricle.load.reporter import EngineState
from auricle.workers.pd.ctranslate2.model import Continued, Floats, WhisperDecoderModel
from auricle.workers.pd.ctranslate2.options import CTranslate2Options, capabilities
from auricle.workers.pd.engine import BACKGROUND, Decoded, GenerateRequest, Timings
from auricle.workers.pd.jobs import DecodeJob
from auricle.workers.pd.threaded import CallerGone, ThreadedEngine

# The engine answers, and cancelled requests end, between two calls. This is about the longest
# duration of a call, well below `liveness_seconds`; and the lowest limit of its tokens, because
# each call computes its prompts again.
_CALL_SECONDS = 6.0
_LEAST_TOKENS = 32
# Live sessions are expected for this long after their last request: a pause of a speaker.
_LIVE_SECONDS = 10.0
# Logits of a call, one row of the vocabulary a token: 200 KB with Whisper's.
_MOST_LOGITS = 512


@dataclass
class _Running:
    """A job in a batch: what its decoder attends to, (positions, width), and its output."""

    job: DecodeJob
    audio: Floats
    limit: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def prompt(self) -> tuple[int, ...]:
        request = self.job.request
        return (*request.head, *request.tail, *self.tokens)

    @property
    def ended(self) -> bool:
        return len(self.tokens) >= self.limit or self.stopped

    @property
    def stopped(self) -> bool:
        return bool(self.tokens) and self.tokens[-1] in self.job.stop_tokens

    def decoded(self, scheduled: float) -> Decoded:
        """Return the result. There is one time for all tokens, as they arrive together."""
        now = time.monotonic()
        return Decoded(
            tokens=tuple(self.tokens),
            finish="stop" if self.stopped else "length",
            prompt_tokens=self.job.prompt_tokens,
            cached_tokens=0,
            steps=len(self.tokens),
            draft_tokens=0,
            accepted_tokens=0,
            timings=Timings(self.job.queued, scheduled, now, now),
            logprobs=tuple(self.logprobs),
        )


class BatchPasses:
    """Runs batches of jobs on a model; updates `state`.

    `between_steps` is called after each call of CTranslate2, and returns False once the engine is
    closed.
    """

    def __init__(
        self,
        model: WhisperDecoderModel,
        slab: Slab,
        options: CTranslate2Options,
        state: EngineState,
        between_steps: Callable[[], bool],
    ) -> None:
        self._model, self._slab, self._options = model, slab, options
        self._state, self._between_steps = state, between_steps
        self._most_tokens = 2 * _LEAST_TOKENS  # of a call, until one has been measured
        self._live_until = -math.inf

    def joins(self, taken: Sequence[DecodeJob], job: DecodeJob) -> bool:
        """Return whether a job has the shape of those taken, and their priority.

        A batch ends with the last of its answers, for which no other priority should wait. Parts of
        recordings are long, so each is decoded alone while there are live sessions: these wait for
        one at most.
        """
        request = taken[0].request
        if request.priority == BACKGROUND and time.monotonic() < self._live_until:
            return False
        rows = self._options.max_model_len if request.logprobs else 1
        return (
            (len(taken) + 1) * rows <= max(_MOST_LOGITS, rows)
            and self._shape(job.request) == self._shape(request)
            and job.request.priority == request.priority
        )

    def _shape(self, request: GenerateRequest) -> tuple[object, ...]:
        """Return the properties that all requests of a batch share."""
        begin = self._model.control.begin((*request.head, *request.tail))
        return begin, self._after_start(request), tuple(request.allowed), request.logprobs

    def _after_start(self, request: GenerateRequest) -> bool:
        """Whether one of control tokens is asked for, as for the detection of a language."""
        control = self._model.control
        return (
            (*request.head, *request.tail) == (control.start,)
            and request.max_tokens == 1
            and bool(request.allowed)
            and all(control.start < token < control.text for token in request.allowed)
        )

    def run(self, jobs: Sequence[DecodeJob]) -> None:
        """Decode a batch. A job whose slots or prompt are wrong fails alone.

        Raises WorkerUnavailable if the engine is closed.
        """
        scheduled = time.monotonic()
        if jobs[0].request.priority != BACKGROUND:
            self._live_until = scheduled + _LIVE_SECONDS
        running = [one for one in map(self._entered, jobs) if one is not None]
        self._state.kv_usage = len(running) / self._options.max_requests
        try:
            while running:
                self._call(running)
                for one in running:
                    if one.ended:
                        one.job.outcome.set_result(one.decoded(scheduled))
                    elif one.job.withdrawn:
                        one.job.outcome.set_exception(CallerGone())
                running = [one for one in running if not one.job.outcome.done()]
                if running and not self._between_steps():
                    raise WorkerUnavailable("the engine of this PD worker is closed")
        finally:
            self._state.kv_usage = 0.0

    def _entered(self, job: DecodeJob) -> _Running | None:
        """Copy a job's embeddings; None if it fails, with its outcome set."""
        try:
            if job.withdrawn:
                raise CallerGone
            self._check(job.request)
            audio = self._audio(job.request)
        except (AuricleError, CallerGone) as error:
            job.outcome.set_exception(error)
            return None
        job.copied.set_result(None)
        limit = min(job.request.max_tokens, self._options.max_model_len - job.prompt_tokens)
        return _Running(job, audio, limit)

    def _check(self, request: GenerateRequest) -> None:
        prompt = (*request.head, *request.tail)
        size, control = self._model.vocab_size, self._model.control
        if not all(0 <= token < size for token in (*prompt, *request.allowed)):
            raise BadRequest(f"a prompt has tokens outside the vocabulary of {size}")
        _, text = control.begin(prompt)
        given = text > 0 and prompt[text - 1] == control.text
        if not given and not self._after_start(request):
            raise BadRequest("a prompt must have <|notimestamps|> as its last control token")

    def _audio(self, request: GenerateRequest) -> Floats:
        """Copy the positions that a request attends to.

        Raises WindowsMissing, and AuricleError if values are not finite.
        """
        for window in request.windows:
            wrong = self._slab.mismatch(window.slot, window.key, window.generation, window.length)
            if wrong is not None:
                raise WindowsMissing((window.key,), wrong)
        gathered = self._slab.gather([(w.slot, w.length) for w in request.windows])
        self._slab.synchronize()
        windows = [
            np.asarray(content).view(np.float32).reshape(window.length, -1)
            for content, window in zip(gathered, request.windows, strict=True)
        ]
        audio = np.concatenate(positions_attended(windows))
        if not np.isfinite(audio).all():
            raise AuricleError("the encoder produced values that are not finite")
        return audio

    def _call(self, running: Sequence[_Running]) -> None:
        """Append to the outputs of a batch."""
        began = time.monotonic()
        audio = np.stack([one.audio for one in running])
        request = running[0].job.request
        if self._after_start(request):
            for one, shares in zip(running, self._model.after_start(audio), strict=True):
                _take_control(one, shares)
            return
        most = max(one.limit - len(one.tokens) for one in running)
        found = self._model.continued(
            audio,
            [one.prompt for one in running],
            min(most, self._most_tokens),
            suppressed=self._never(request),
            scored=request.logprobs,
        )
        for one, new in zip(running, found, strict=True):
            _take(one, new)
        steps = max(len(new.tokens) for new in found)
        seconds = (time.monotonic() - began) / steps
        self._state.stepped(seconds)
        if steps >= _LEAST_TOKENS:  # fewer would measure the prompts
            self._most_tokens = max(_LEAST_TOKENS, int(_CALL_SECONDS / seconds))

    def _never(self, request: GenerateRequest) -> Sequence[int]:
        if not request.allowed:
            return self._model.suppressed
        others = set(range(self._model.vocab_size)) - set(request.allowed)
        return list(others.union(self._model.suppressed))


def _take(one: _Running, new: Continued) -> None:
    """Append new tokens up to the job's limit or the first that ends its output."""
    for number, token in enumerate(new.tokens):
        if one.ended:
            return
        one.tokens.append(token)
        if new.logits is not None:
            row = new.logits[number].astype(np.float64)
            one.logprobs.append(float(row[token] - _log_of_sum(row)))


def _log_of_sum(logits: np.ndarray) -> float:
    highest = logits.max()
    return float(highest + np.log(np.exp(logits - highest).sum()))


def _take_control(one: _Running, shares: dict[int, float]) -> None:
    request = one.job.request
    among = {token: shares[token] for token in request.allowed}
    token = max(among, key=lambda known: among[known])
    one.tokens.append(token)
    if request.logprobs:
        one.logprobs.append(float(np.log(among[token] / sum(among.values()))))


class CTranslate2Engine(ThreadedEngine):
    """Whisper's decoder, whose audio is in `slab`; see `ThreadedEngine`."""

    def __init__(
        self, checkpoint: ModelCheckpoint, options: CTranslate2Options, slab: Slab
    ) -> None:
        model = WhisperDecoderModel(checkpoint, options.compute_type, options.threads)
        super().__init__(
            "CTranslate2",
            checkpoint,
            capabilities(),
            slab,
            max_waiting=options.max_requests,
            max_model_len=options.max_model_len,
            kv_tokens=options.max_requests * options.max_model_len,
            passes=lambda state, between_steps: BatchPasses(
                model, slab, options, state, between_steps
            ),
        )
