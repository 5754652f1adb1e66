"""Tracing with OpenTelemetry, imported here alone: one trace per session, across processes.

Messages carry the parent span as a W3C `traceparent` string. Without an endpoint nothing is
recorded and OpenTelemetry is not imported.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from auricle.config.common import CommonSettings

NO_TRACE = ""


class Tracer:
    """Records the spans of one process. Its methods may be called from any thread."""

    def __init__(self, component: str, endpoint: str, namespace: str = "auricle") -> None:
        """`endpoint` takes OTLP over HTTP, such as http://localhost:4318/v1/traces.

        Spans of component EncodeWorker have the service name `auricle-encode-worker`.
        """
        self._provider: Any = None
        if not endpoint:
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # Collectors distinguish services by name, and group them by namespace.
        name = f"auricle-{_dashed(component)}"
        resource = Resource.create({"service.name": name, "service.namespace": namespace})
        self._provider = TracerProvider(resource=resource)
        # It exports spans in a thread of its own, so a slow or absent collector delays nothing.
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        self._tracer = self._provider.get_tracer("auricle")

    @contextmanager
    def span(self, name: str, parent: str = NO_TRACE, **attributes: Any) -> Iterator[str]:
        """Record the block as a span, and yield its traceparent for child spans.

        Without a parent the span begins a new trace. An exception marks it as failed.
        """
        if self._provider is None:
            yield NO_TRACE
            return
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()
        context = _context(parent) if parent else None
        named = {f"auricle.{key}": value for key, value in attributes.items()}
        # Parents are always passed explicitly, never taken from the task's current span.
        with self._tracer.start_as_current_span(name, context=context, attributes=named):
            carrier: dict[str, str] = {}
            propagator.inject(carrier)
            yield carrier["traceparent"]

    def record(self, name: str, parent: str, began: float, ended: float) -> None:
        """Record a span that has ended already; times are monotonic seconds."""
        if self._provider is None or not parent:
            return
        to_wall = time.time_ns() - time.monotonic_ns()
        at = [round(seconds * 1e9) + to_wall for seconds in (began, ended)]
        context = _context(parent)
        self._tracer.start_span(name, context=context, start_time=at[0]).end(at[1])

    def close(self) -> None:
        """Export the remaining spans. Blocks for 2 s or more if the collector does not answer."""
        if self._provider is not None:
            self._provider.force_flush(2_000)
            self._provider.shutdown()


@asynccontextmanager
async def traced(component: str, settings: CommonSettings) -> AsyncIterator[Tracer]:
    """Yield the tracer of a process, whose remaining spans are exported in the end."""
    tracer = Tracer(component, settings.otlp_endpoint, settings.namespace)
    try:
        yield tracer
    finally:
        await asyncio.to_thread(tracer.close)


def _dashed(component: str) -> str:
    """EncodeWorker → encode-worker."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", component).lower()


def _context(parent: str) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


OFF = Tracer("", "")
