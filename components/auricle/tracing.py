"""OpenTelemetry, imported here and nowhere else: one trace per session, across processes.

A span's place in its trace travels in our messages as a W3C `traceparent` string. Without
an endpoint nothing is recorded and nothing is imported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NO_TRACE = ""


class Tracer:
    """Of one process."""

    def __init__(self, component: str, endpoint: str) -> None:
        """`endpoint` takes OTLP over HTTP, such as http://localhost:4318/v1/traces."""
        self._provider: Any = None
        if not endpoint:
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": "auricle", "service.component": component})
        self._provider = TracerProvider(resource=resource)
        # Its thread sends what was recorded; a slow or absent collector delays nothing.
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        self._tracer = self._provider.get_tracer("auricle")

    @contextmanager
    def span(self, name: str, parent: str = NO_TRACE, **attributes: Any) -> Iterator[str]:
        """A span around the block; yields its traceparent, for the spans below it.

        Without a parent a new trace begins. An exception marks the span as failed.
        """
        if self._provider is None:
            yield NO_TRACE
            return
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()
        context = _context(parent) if parent else None
        named = {f"auricle.{key}": value for key, value in attributes.items()}
        # Not as the current span of this task: parents are always named, never found.
        with self._tracer.start_as_current_span(name, context=context, attributes=named):
            carrier: dict[str, str] = {}
            propagator.inject(carrier)
            yield carrier["traceparent"]

    def record(self, name: str, parent: str, began: float, ended: float) -> None:
        """A span that is over already; times in seconds of the monotonic clock."""
        if self._provider is None or not parent:
            return
        to_wall = time.time_ns() - time.monotonic_ns()
        at = [round(seconds * 1e9) + to_wall for seconds in (began, ended)]
        context = _context(parent)
        self._tracer.start_span(name, context=context, start_time=at[0]).end(at[1])

    def close(self) -> None:
        """Send what is left; takes a second or two if the collector does not answer."""
        if self._provider is not None:
            self._provider.force_flush(2_000)
            self._provider.shutdown()


def _context(parent: str) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


OFF = Tracer("", "")
