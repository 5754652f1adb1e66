"""Spans state their service, as collectors expect it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from auricle.process.tracing import Tracer

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("component", "service"),
    [("Frontend", "auricle-frontend"), ("EncodeWorker", "auricle-encode-worker")],
)
def test_every_component_is_a_service_of_its_own(component: str, service: str) -> None:
    received: list[dict[str, str]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                received.append({a.key: a.value.string_value for a in spans.resource.attributes})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tracer = Tracer(component, f"http://127.0.0.1:{server.server_port}/v1/traces", "city")
        with tracer.span("session"):
            pass
        tracer.close()
        server.shutdown()
    assert [(r["service.name"], r["service.namespace"]) for r in received] == [(service, "city")]
