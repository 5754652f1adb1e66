"""Traces across all processes, JSON logs, and the metrics behind user-visible latency."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import Server, eventually
from tests.integration.observed.collector import Collector

pytestmark = pytest.mark.end_to_end
# Spans of a session: the service that creates each, and its parent span.
WHERE = {
    "session": "auricle-frontend",
    "chunk": "auricle-processor",
    "mel": "auricle-processor",
    "encode": "auricle-encode-worker",
    "decode": "auricle-pd-worker",
    "fetch": "auricle-pd-worker",
    "generate": "auricle-pd-worker",
    "voice_activity": "auricle-frontend",
    "push": "auricle-frontend",
    "send": "auricle-frontend",
    "encode_queue": "auricle-encode-worker",
    "encode_pass": "auricle-encode-worker",
    "decode_queue": "auricle-pd-worker",
    "prefill": "auricle-pd-worker",
    "decode_steps": "auricle-pd-worker",
}
PARENTS = {
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


async def test_traces_logs_and_waits_of_a_session(
    observed: Server, telling: Server, collector: Collector
) -> None:
    samples = recordings.samples("hello") * np.float32(0.9)  # not in any cache yet
    # Long enough for a partial, even if a process hangs for a while.
    before = recordings.samples("kitchen")
    assert [e async for e in stream_file(telling.url, before, live=True)]
    events = [e async for e in stream_file(telling.url, samples, live=True)]
    session, decodes = events[0]["session"], events[-1]["usage"]["decodes"]
    path = recordings.path("hello")
    async with httpx.AsyncClient(timeout=60) as client:
        await client.post(
            f"{telling.url}/v1/audio/transcriptions",
            data={"model": "demo"},
            files={"file": path.read_bytes()},
        )
    for name in ("chunk_lag", "first_partial", "stop_to_final"):
        metric = f"auricle_frontend_{name}_seconds"
        assert telling.metric("Frontend", f"{metric}_count") >= 1
    heard = telling.metric("Frontend", "auricle_frontend_audio_seconds_total", kind="received")
    speech = telling.metric("Frontend", "auricle_frontend_audio_seconds_total", kind="speech")
    assert 0 < speech < heard == pytest.approx((len(before) + len(samples)) / 16_000)
    received = "auricle_frontend_received_bytes_total"
    assert telling.metric("Frontend", received, transport="websocket") > 0
    assert telling.metric("Frontend", received, transport="http") > 0
    received = "auricle_encode_worker_received_bytes_total"
    assert observed.metric("EncodeWorker", received, transport="request_plane") > 0
    received = "auricle_pd_worker_received_bytes_total"
    workers = ("PdWorker", "PdWorker-2")
    assert sum(observed.metric(worker, received, transport="nixl") for worker in workers) > 0
    # Every process exports its spans with a delay.
    await eventually(lambda: _complete(collector.of_session(session), decodes), seconds=60)
    _one_trace(collector.of_session(session))
    # The client receives the end before the server logs it.
    await eventually(lambda: bool(_ended(telling.log, session)), seconds=60)
    _json_logs(telling.log, session, events[-1]["text"])


def _complete(spans: list[tuple[str, Any]], decodes: int) -> bool:
    names = [span.name for _, span in spans]
    ids = {span.span_id for _, span in spans}
    parents = {span.parent_span_id for _, span in spans if span.parent_span_id}
    return set(WHERE) <= set(names) and parents <= ids and names.count("chunk") >= decodes


def _one_trace(spans: list[tuple[str, Any]]) -> None:
    assert len({span.trace_id for _, span in spans}) == 1
    by_id = {span.span_id: (component, span) for component, span in spans}
    where = {span.name: component for component, span in spans}
    assert where == WHERE
    parents = {
        span.name: by_id[span.parent_span_id][1].name for _, span in spans if span.parent_span_id
    }
    assert parents == PARENTS


def _entries(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith("{")]


def _ended(lines: list[str], session: str) -> list[dict[str, Any]]:
    return [e for e in _entries(lines) if e.get("outcome") == "done" and e["session"] == session]


def _json_logs(lines: list[str], session: str, text: str) -> None:
    entries = _entries(lines)
    ended = _ended(lines, session)
    assert [(e["protocol"], e["audio_seconds"] > 1) for e in ended] == [("stream", True)]
    finals = [e for e in entries if e["message"] == "final text" and e.get("session") == session]
    assert [entry["text"] for entry in finals if entry["text"]] == [text]
    assert {(e["component"], e["level"], e["tenant"]) for e in finals} == {
        ("Frontend", "INFO", "default")
    }


def test_every_line_of_a_graph_is_json_whoever_wrote_it(observed: Server) -> None:
    entries = [json.loads(line) for line in observed.log]
    assert all({"level", "component", "process", "message"} <= entry.keys() for entry in entries)
    assert {"launcher", "Frontend", "Processor", "EncodeWorker", "PdWorker"} <= {
        entry["component"] for entry in entries
    }
    assert not [e for e in entries if "request_span" in str(e) or "deprecated" in e["message"]]


async def test_no_text_is_logged_unless_asked_for(observed: Server) -> None:
    samples = recordings.samples("hello")
    events = [e async for e in stream_file(observed.url, samples, live=True)]
    words = events[-1]["text"]
    assert words
    assert not [line for line in observed.log if words in line]
