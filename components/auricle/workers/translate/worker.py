"""Handles translate requests: admission, the prompt, generation."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain

from prometheus_client import CollectorRegistry

from auricle.annotation.translation.targets import is_code
from auricle.config.settings import TranslateWorkerSettings
from auricle.core.aio import with_timeout
from auricle.core.errors import BadRequest, UnsupportedValue
from auricle.core.sanitize import quoted
from auricle.load.meters import WorkMeter
from auricle.process.metrics import ComponentMetrics
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.annotation import TranslateReply, TranslateRequest
from auricle.workers.pd.engine import Decoded, Engine, GenerateRequest, admit, priority
from auricle.workers.pd.metrics import TokenCounters
from auricle.workers.translate.prompt import TranslationPrompt, TranslatorPrompt


class TranslateWorkerMetrics:
    """The translate worker's own metrics; load/reporter.py has its load metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "translate_worker")
        self._translations = new.counter("translations", "translate requests answered")
        self._tokens = TokenCounters(new, "translations")
        self._seconds = new.histogram(
            "translation_seconds",
            "time from a request's arrival to its reply",
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent requests")
        self.in_flight = new.gauge("requests_in_flight", "requests in progress")

    def translated(self, reply: TranslateReply, decoded: Decoded) -> None:
        self._translations.inc()
        self._tokens.answered(decoded, len(decoded.tokens))
        self._seconds.observe(reply.seconds)


# The longest answer in tokens: per token of the source, and at least.
_TOKENS_PER_TOKEN, _LEAST_TOKENS = 3, 16
# Longer requests are rejected before they are tokenized, which would delay all others.
_CHARACTERS_PER_TOKEN, _MOST_SENTENCES = 16, 16


class TranslateWorker:
    """Handles up to `max_requests` requests at a time, on one event loop, without session state."""

    def __init__(
        self,
        settings: TranslateWorkerSettings,
        prompt: TranslatorPrompt,
        engine: Engine,
        metrics: TranslateWorkerMetrics,
        *,
        targets: Iterable[str] = (),
        sources: Iterable[str] = (),
        tracer: Tracer = OFF,
    ) -> None:
        """It translates into `targets` and from `sources`; empty for any language."""
        self._settings = settings
        self._prompt = prompt
        self._engine = engine
        self._metrics = metrics
        self._tracer = tracer
        self._targets = tuple(targets)
        self._sources = tuple(sources)
        self._requests = 0
        self.meter = WorkMeter()
        metrics.in_flight.set_function(lambda: self.meter.in_flight)
        metrics.requests_limit.set(settings.max_requests)

    async def translate(self, request: TranslateRequest) -> TranslateReply:
        """Return the text after the request's answer; cancelling aborts it in the engine.

        Raises Overloaded if no slot is free for its kind, UnsupportedValue for an unsupported
        language, BadRequest if the source is empty or too long, and DeadlineExceeded. Other
        requests are not affected.
        """
        others, began = self.meter.in_flight, time.monotonic()
        with self.meter.request(), self._tracer.span("translate", request.trace) as trace:
            self._check(request, others)
            prompt = self._fitting(request)
            decoded = await with_timeout(
                self._settings.deadline_seconds, self._generate(request, prompt), "a translation"
            )
            self._record(decoded, trace, began)
            reply = TranslateReply(
                text=self._prompt.text(request, prompt, decoded.tokens),
                finish=decoded.finish,
                prompt_tokens=decoded.prompt_tokens,
                cached_tokens=decoded.cached_tokens,
                draft_tokens=decoded.draft_tokens,
                accepted_tokens=decoded.accepted_tokens,
                seconds=time.monotonic() - began,
            )
        self._metrics.translated(reply, decoded)
        return reply

    def _check(self, request: TranslateRequest, others: int) -> None:
        admit(
            others,
            self._settings.max_requests,
            final=request.whole,
            background=request.background,
        )
        _check_language(request.target, self._targets, "target", "into")
        if request.source_language:
            _check_language(request.source_language, self._sources, "source_language", "from")
        if request.source_language == request.target:
            raise BadRequest(f"the source is in {quoted(request.target)} already")
        if not request.source.strip():
            raise BadRequest("there is nothing to translate: the source is empty")
        self._check_size(request)

    def _check_size(self, request: TranslateRequest) -> None:
        if len(request.context) > _MOST_SENTENCES:
            raise BadRequest(
                f"{len(request.context)} sentences of context, at most {_MOST_SENTENCES} are used"
            )
        pairs = chain.from_iterable((*request.context, *request.terms))
        texts = (request.source, request.answer, request.draft, *pairs)
        characters, most = sum(map(len, texts)), self._settings.max_model_len
        if characters > _CHARACTERS_PER_TOKEN * most:
            raise BadRequest(
                f"texts of {characters} characters exceed {self._settings.component}.max_model_len "
                f"{most} tokens; at most {_CHARACTERS_PER_TOKEN} characters per token are accepted"
            )

    def _fitting(self, request: TranslateRequest) -> TranslationPrompt:
        """Return the prompt with as much of the latest context as fits.

        Raises BadRequest if it does not fit without context.
        """
        most = self._settings.max_model_len
        for sentences in range(len(request.context), -1, -1):
            prompt = self._prompt.build(request, sentences)
            total = len(prompt.tokens) + longest(prompt)
            if total <= most:
                return prompt
        raise BadRequest(
            f"prompt and output of up to {total} tokens exceed "
            f"{self._settings.component}.max_model_len {most}"
        )

    async def _generate(self, request: TranslateRequest, prompt: TranslationPrompt) -> Decoded:
        self._requests += 1
        return await self._engine.generate(
            GenerateRequest(
                # Unique, as a session may repeat a request while the last one is being aborted.
                f"{request.session}-{request.target}-{self._requests}",
                prompt.tokens,
                (),
                (),
                self._prompt.stop_tokens,
                longest(prompt),
                priority=priority(final=request.whole, background=request.background),
                tenant=request.tenant,
                draft=prompt.draft if self._engine.capabilities.drafts else (),
                reusable_windows=None,
            )
        )

    def _record(self, decoded: Decoded, trace: str, began: float) -> None:
        """Record the work and the engine's timings of a request that arrived at `began`."""
        self.meter.did(translations=1, **decoded.work)
        at = decoded.timings
        self.meter.waited(at.scheduled - began)
        self._tracer.record("translate_queue", trace, at.queued, at.scheduled)
        self._tracer.record("translate_steps", trace, at.scheduled, at.last_token)


def longest(prompt: TranslationPrompt) -> int:
    """Return the maximum number of tokens that an answer may still have."""
    return max(_LEAST_TOKENS, _TOKENS_PER_TOKEN * prompt.source_tokens - len(prompt.answer))


def _check_language(code: str, known: tuple[str, ...], field: str, way: str) -> None:
    if not is_code(code):
        raise UnsupportedValue(
            f"{field} is {quoted(code)}, expected an ISO 639-1 code such as es", field
        )
    if known and code not in known:
        raise UnsupportedValue(
            f"this server does not translate {way} {quoted(code)}; it does {way} "
            f"{', '.join(known)}",
            field,
        )
