"""Handles decode requests: admission, fetching the windows, generation."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from auricle.checkpoints.geometry import Geometry
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import AuricleError, BadRequest, UnsupportedValue
from auricle.embeddings.fetch import Fetched, WindowFetcher
from auricle.embeddings.layout import check_keys
from auricle.load.meters import WorkMeter
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.recognition import DecodeReply, DecodeRequest
from auricle.workers.pd.engine import Decoded, Engine, GenerateRequest, admit, priority
from auricle.workers.pd.metrics import PdWorkerMetrics

# A session without a decode for this time has ended or moved: a drain does not wait for it.
_FORGOTTEN_SECONDS = 15.0


class LiveSegments:
    """Counts open segments, from the first partial to the final decode of each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}  # time of the last partial, by session

    def decoded(self, session: str, *, final: bool) -> None:
        if final:
            self._seen.pop(session, None)
        else:
            self._seen[session] = self._clock()

    def __len__(self) -> int:
        oldest = self._clock() - _FORGOTTEN_SECONDS
        self._seen = {s: at for s, at in self._seen.items() if at > oldest}
        return len(self._seen)


class PdWorker:
    """Handles up to `max_requests` decode requests at a time, on one event loop."""

    def __init__(
        self,
        settings: PdWorkerSettings,
        prompt: PromptFormat,
        geometry: Geometry,
        fetcher: WindowFetcher,
        engine: Engine,
        metrics: PdWorkerMetrics,
        tracer: Tracer = OFF,
    ) -> None:
        self._settings = settings
        self._prompt = prompt
        self._geometry = geometry
        self._fetcher = fetcher
        self._engine = engine
        self._metrics = metrics
        self._tracer = tracer
        self.meter = WorkMeter()
        self.segments = LiveSegments()
        metrics.in_flight.set_function(lambda: self.meter.in_flight)
        metrics.requests_limit.set(settings.max_requests)

    async def decode(self, request: DecodeRequest) -> DecodeReply:
        """Decode a request; cancelling aborts it in the engine.

        Raises Overloaded if no slot is free for its kind, WindowsMissing if the caller must encode
        windows again, BadRequest if the prompt does not fit, and UnsupportedValue for options that
        the engine lacks. Other requests are not affected.
        """
        others, windows = self.meter.in_flight, len(request.windows)
        with self.meter.request():
            try:
                self._check(request, others)
            except AuricleError:
                # The caller's next attempt gets new leases.
                self._fetcher.give_back(request.windows)
                raise
            with self._tracer.span("decode", request.trace, windows=windows) as trace:
                reply = await self._decode(request, trace)
            self.segments.decoded(request.session, final=request.final)
            return reply

    def _check(self, request: DecodeRequest, others: int) -> None:
        check_keys((window.key for window in request.windows), request.tenant)
        admit(
            others,
            self._settings.max_requests,
            final=request.final,
            background=request.background,
        )
        audio = sum(self._geometry.prompt_tokens(window.length) for window in request.windows)
        total = len(request.head) + audio + len(request.tail) + request.max_tokens
        if total > self._settings.max_model_len:
            raise BadRequest(
                f"prompt and output of up to {total} tokens exceed "
                f"max_model_len {self._settings.max_model_len}"
            )
        if not request.windows or request.max_tokens < 1:
            raise BadRequest("a decode needs at least one window and one output token")
        if request.logprobs and not self._engine.capabilities.logprobs:
            raise UnsupportedValue(
                "this server's engine gives no log probabilities; ask without logprobs", "logprobs"
            )

    async def _decode(self, request: DecodeRequest, trace: str) -> DecodeReply:
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            with self._tracer.span("fetch", trace):
                pinned = self._fetcher.pinned(request.windows)
                fetched = await stack.enter_async_context(pinned)
            read_seconds = time.monotonic() - began
            with self._tracer.span("generate", trace) as generate:
                decoded = await self._generate(request, fetched)
            self._record(decoded, generate, began)
        kept = [at for at, t in enumerate(decoded.tokens) if t not in self._prompt.stop_tokens]
        reply = DecodeReply(
            tokens=tuple(decoded.tokens[at] for at in kept),
            finish=decoded.finish,
            prompt_tokens=decoded.prompt_tokens,
            cached_tokens=decoded.cached_tokens,
            embedding_bytes_read=fetched.bytes_read,
            steps=decoded.steps,
            read_seconds=read_seconds,
            logprobs=tuple(decoded.logprobs[at] for at in kept) if request.logprobs else (),
        )
        self._metrics.decoded(reply, decoded)
        return reply

    def _record(self, decoded: Decoded, trace: str, began: float) -> None:
        """Record the work and the engine's timings of a request that arrived at `began`."""
        self.meter.did(decodes=1, **decoded.work)
        at = decoded.timings
        self.meter.waited(at.scheduled - began)
        self._tracer.record("decode_queue", trace, at.queued, at.scheduled)
        self._tracer.record("prefill", trace, at.scheduled, at.first_token)
        self._tracer.record("decode_steps", trace, at.first_token, at.last_token)

    async def _generate(self, request: DecodeRequest, fetched: Fetched) -> Decoded:
        return await self._engine.generate(
            GenerateRequest(
                request.request,
                request.head,
                fetched.windows,
                request.tail,
                self._prompt.stop_tokens,
                request.max_tokens,
                priority=priority(final=request.final, background=request.background),
                tenant=request.tenant,
                draft=request.draft if self._engine.capabilities.drafts else (),
                reusable_windows=self._reusable(request),
                logprobs=request.logprobs,
                allowed=request.allowed,
            )
        )

    def _reusable(self, request: DecodeRequest) -> int | None:
        if not self._engine.capabilities.limited_reuse:
            return None
        # The final is the segment's last decode.
        if request.final:
            return 0
        # The next decode repeats the finished windows.
        windows = request.windows
        return next((i for i, window in enumerate(windows) if window.partial), len(windows))
