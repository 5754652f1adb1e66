"""Collects traces (OTLP over HTTP) and computes the time of a chunk's steps."""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """One step; times in seconds of the wall clock."""

    name: str
    id: bytes
    parent: bytes
    start: float
    end: float
    final: bool

    @property
    def seconds(self) -> float:
        """The duration of the span."""
        return self.end - self.start


@contextlib.contextmanager
def collecting() -> Iterator[tuple[str, list[Span]]]:
    """Yield the address of a collector and the list of spans that it receives."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                final = any(
                    a.key == "auricle.final" and a.value.bool_value for a in span.attributes
                )
                yield Span(
                    span.name, span.span_id, span.parent_span_id,
                    span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9, final,
                )  # fmt: skip


# Steps of a chunk in their order. A session has many of each step at the frontend, which do not
# belong to a single chunk.
FRONTEND_STEPS = ("voice_activity", "push", "send")
CHUNK_STEPS = (
    "mel", "encode_queue", "encode_pass", "fetch", "decode_queue", "prefill", "decode_steps"
)  # fmt: skip
ORDER = ("receive", "voice_activity", "push", "calls", *CHUNK_STEPS, "send")
_WORKERS = ("encode", "fetch", "generate")


def waterfall(spans: Sequence[Span], latencies: Sequence[float]) -> dict[str, float]:
    """Median seconds of each step of a partial decode, and `control` of all together.

    `latencies` are the clients': from a chunk's last packet to its text; their median is
    `total`. `calls` is the time between the steps of the processor and its workers;
    `receive` is the rest: the network, the sockets, and events in transit.
    `control` is the total without encoder, transfer and decoder.
    """
    below: dict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        below[span.parent].append(span)
    rows: dict[str, list[float]] = defaultdict(list)
    for chunk in spans:
        found = {s.name: s.seconds for s in _all_below(chunk, below)}
        if chunk.name != "chunk" or chunk.final or "decode_steps" not in found:
            continue
        for step in CHUNK_STEPS:
            rows[step].append(found.get(step, 0.0))
        rows["calls"].append(chunk.seconds - sum(rows[step][-1] for step in CHUNK_STEPS))
        rows["chunk"].append(chunk.seconds)
        rows["workers"].append(sum(found.get(step, 0.0) for step in _WORKERS))
    if not rows:
        return {}
    for step in FRONTEND_STEPS:
        rows[step] = [s.seconds for s in spans if s.name == step]
    medians = {name: statistics.median(values) for name, values in rows.items() if values}
    medians["total"] = statistics.median(latencies)
    around = medians["chunk"] + sum(medians.get(step, 0.0) for step in FRONTEND_STEPS)
    medians["receive"] = max(0.0, medians["total"] - around)
    medians["control"] = medians["total"] - medians.pop("workers")
    return medians


def _all_below(span: Span, below: dict[bytes, list[Span]]) -> Iterator[Span]:
    for child in below[span.id]:
        yield child
        yield from _all_below(child, below)
