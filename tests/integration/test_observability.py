"""Traces across all processes, JSON logs, and the numbers behind what users notice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from auricle.client.stream import stream_file
from tests import recordings
from tests.server import Server, eventually, serving

pytestmark = pytest.mark.end_to_end


class Collector:
    """An OTLP collector: every span received, with its component."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Quiet."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}/v1/traces"
            server.shutdown()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            named = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(named["service.component"], span) for span in scope.spans]

    def of_session(self, session: str) -> list[tuple[str, Any]]:
        """All spans of the trace whose root is that session."""
        traces = {
            span.trace_id
            for _, span in self.spans
            if any(
                a.key == "auricle.session" and a.value.string_value == session
                for a in span.attributes
            )
        }
        return [(c, span) for c, span in self.spans if span.trace_id in traces]


async def test_traces_logs_and_waits_of_a_session() -> None:
    collector = Collector()
    with (
        collector.running() as endpoint,
        serving(
            f"--Common.otlp_endpoint={endpoint}",
            "--Common.log_format=json",
            "--Common.log_transcripts=true",
        ) as server,
    ):
        samples = recordings.samples("hello")
        events = [e async for e in stream_file(server.url, samples, live=True)]
        session = events[0]["session"]
        path = recordings.path("hello")
        async with httpx.AsyncClient(timeout=60) as client:
            await client.post(
                f"{server.url}/v1/audio/transcriptions",
                data={"model": "demo"},
                files={"file": path.read_bytes()},
            )
        await eventually(
            lambda: (
                {"generate", "encode", "session"}
                <= {span.name for _, span in collector.of_session(session)}
            ),
            seconds=30,
        )
        for name in ("chunk_lag", "first_partial", "stop_to_final"):
            metric = f"auricle_frontend_{name}_seconds"
            assert server.metric("Frontend", f"{metric}_count") >= 1
        heard = server.metric("Frontend", "auricle_frontend_audio_seconds_total", kind="received")
        speech = server.metric("Frontend", "auricle_frontend_audio_seconds_total", kind="speech")
        assert 0 < speech < heard == pytest.approx(len(samples) / 16_000)
        for component, transport in (
            ("Frontend", "websocket"),
            ("Frontend", "http"),
            ("EncodeWorker", "request_plane"),
            ("PdWorker", "nixl"),
        ):
            prefix = {"Frontend": "frontend", "EncodeWorker": "encode_worker"}.get(
                component, "pd_worker"
            )
            metric = f"auricle_{prefix}_received_bytes_total"
            assert server.metric(component, metric, transport=transport) > 0
    _one_trace(collector.of_session(session), decodes=events[-1]["usage"]["decodes"])
    _json_logs(server.log, session, events[-1]["text"])


def _one_trace(spans: list[tuple[str, Any]], decodes: int) -> None:
    assert len({span.trace_id for _, span in spans}) == 1
    by_id = {span.span_id: (component, span) for component, span in spans}
    where = {span.name: component for component, span in spans}
    assert where == {
        "session": "Frontend",
        "chunk": "Processor",
        "mel": "Processor",
        "encode": "EncodeWorker",
        "decode": "PdWorker",
        "fetch": "PdWorker",
        "generate": "PdWorker",
        "voice_activity": "Frontend",
        "push": "Frontend",
        "send": "Frontend",
        "encode_queue": "EncodeWorker",
        "encode_pass": "EncodeWorker",
        "decode_queue": "PdWorker",
        "prefill": "PdWorker",
        "decode_steps": "PdWorker",
    }
    parents = {
        span.name: by_id[span.parent_span_id][1].name for _, span in spans if span.parent_span_id
    }
    assert parents == {
        "chunk": "session",
        "mel": "chunk",
        "encode": "chunk",
        "decode": "chunk",
        "fetch": "decode",
        "generate": "decode",
        "voice_activity": "session",
        "push": "session",
        "send": "session",
        "encode_queue": "encode",
        "encode_pass": "encode",
        "decode_queue": "generate",
        "prefill": "generate",
        "decode_steps": "generate",
    }
    assert len([span for _, span in spans if span.name == "chunk"]) >= decodes


def _json_logs(lines: list[str], session: str, text: str) -> None:
    entries = []
    for line in lines:
        start = line.find("{")
        if start >= 0 and '"message"' in line:
            entries.append(json.loads(line[start:]))
    finals = [e for e in entries if e["message"] == "final text" and e.get("session") == session]
    assert [entry["text"] for entry in finals if entry["text"]] == [text]
    assert {(e["component"], e["level"], e["tenant"]) for e in finals} == {
        ("Frontend", "INFO", "default")
    }


async def test_no_text_is_logged_unless_asked_for() -> None:
    with serving("--Common.log_level=DEBUG", "--Common.log_format=json") as server:
        samples = recordings.samples("hello")
        events = [e async for e in stream_file(server.url, samples, live=True)]
    words = events[-1]["text"]
    assert words
    assert not [line for line in server.log if words in line]


@pytest.mark.parametrize("component", ["Processor", "EncodeWorker", "PdWorker"])
@pytest.mark.parametrize("path", ["health", "live"])
def test_a_process_that_serves_says_that_it_is_well(
    server: Server, component: str, path: str
) -> None:
    """What probes of a container ask."""
    port = server.system_ports[component]
    assert httpx.get(f"http://127.0.0.1:{port}/{path}").status_code == 200


@pytest.mark.parametrize("component", ["EncodeWorker", "PdWorker"])
async def test_a_worker_reports_its_load(server: Server, component: str) -> None:
    prefix = f"auricle_{'encode' if component == 'EncodeWorker' else 'pd'}_worker"
    await _transcribed(server)
    await eventually(
        lambda: server.metric(component, f"{prefix}_response_seconds_p95") > 0, seconds=10
    )
    assert 0 < server.metric(component, f"{prefix}_busy_share") <= 1
    assert server.metric(component, f"{prefix}_work_per_second") > 0
    assert server.metric(component, f"{prefix}_draining") == 0


async def _transcribed(server: Server) -> None:
    async for _ in stream_file(server.url, recordings.samples("hello"), live=True):
        pass
