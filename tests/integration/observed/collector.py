"""Receives the traces of all processes like an OTLP collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """An OTLP collector: every span received, with its service."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        self.endpoint = ""  # set while it runs

    @contextmanager
    def running(self) -> Iterator[None]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            self.endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
            yield
            server.shutdown()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            named = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(named["service.name"], span) for span in scope.spans]

    def of_session(self, session: str) -> list[tuple[str, Any]]:
        """All spans of the trace whose root is this session."""
        traces = {
            span.trace_id
            for _, span in self.spans
            if any(
                a.key == "auricle.session" and a.value.string_value == session
                for a in span.attributes
            )
        }
        return [(c, span) for c, span in self.spans if span.trace_id in traces]
