"""Takes traces as a collector does (OTLP over HTTP) and says where a chunk's time went."""

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
        """How long it took."""
        return self.end - self.start


@contextlib.contextmanager
def collecting() -> Iterator[tuple[str, list[Span]]]:
    """An endpoint's address, and the spans that have arrived there."""
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


# Steps below `chunk`, in the order in which they happen.
STEPS = ("mel", "encode", "fetch", "generate")


def waterfall(spans: Sequence[Span], latencies: Sequence[float]) -> dict[str, float]:
    """Median seconds of each step of a partial decode, and of what lies between them.

    `latencies` are the clients': from a chunk's last packet to its text. `frontend` is what
    of them is not spent in the processor: receiving, voice activity, pushing and sending.
    """
    below: dict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        below[span.parent].append(span)
    rows: dict[str, list[float]] = defaultdict(list)
    for chunk in spans:
        if chunk.name != "chunk" or chunk.final:
            continue
        found = {s.name: s for s in _all_below(chunk, below)}
        if "generate" not in found:
            continue
        for step in STEPS:
            rows[step].append(found[step].seconds if step in found else 0.0)
        rows["between"].append(chunk.seconds - sum(rows[step][-1] for step in STEPS))
        rows["chunk"].append(chunk.seconds)
    if not rows:
        return {}
    medians = {name: statistics.median(values) for name, values in rows.items()}
    total = statistics.median(latencies)
    medians["total"] = total
    medians["frontend"] = max(0.0, total - medians["chunk"])
    return medians


def _all_below(span: Span, below: dict[bytes, list[Span]]) -> Iterator[Span]:
    for child in below[span.id]:
        yield child
        yield from _all_below(child, below)


def control_share(found: dict[str, float]) -> float:
    """What of a chunk's latency is neither encoder, transfer nor decoder."""
    return 1 - sum(found[step] for step in ("encode", "fetch", "generate")) / found["total"]
