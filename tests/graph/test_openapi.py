"""The server against the OpenAPI document: no input causes a 5xx of our code."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error

from auricle_testing.server import ANSWER_SECONDS, Server

pytestmark = pytest.mark.end_to_end


def got(url: str) -> httpx.Response:
    return httpx.get(url, timeout=ANSWER_SECONDS)


def test_the_document_names_every_route(server: Server) -> None:
    paths = got(f"{server.url}/openapi.json").json()["paths"]
    assert set(paths) == {
        "/live",
        "/health",
        "/metrics",
        "/v1/diagnosis",
        "/v1/operations",
        "/v1/operations/events",
        "/v1/operations/history",
        "/v1/operations/examination",
        "/v1/models",
        "/v1/models/{model}",
        "/v1/audio/jobs",
        "/v1/audio/jobs/{job}",
        "/v1/audio/jobs/{job}/result",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/listen",
    }
    form = paths["/v1/audio/transcriptions"]["post"]["requestBody"]["content"]
    fields = form["multipart/form-data"]["schema"]["properties"]
    assert {"file", "model", "language", "response_format", "stream"} <= set(fields)


def test_docs_are_a_page(server: Server) -> None:
    page = got(f"{server.url}/docs")
    assert (
        page.status_code == 200 and "script-src 'self'" in page.headers["Content-Security-Policy"]
    )


def test_no_generated_request_gives_a_server_error(server: Server) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    seen: set[str] = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path == "/v1/operations/events":  # never ends by itself
            continue

        @settings(
            max_examples=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            response = case.call()
            case.validate_response(response, checks=[not_a_server_error])
            seen.add(f"{case.method} {case.path}")

        check()
    assert len(seen) == 17


def test_unknown_paths_and_methods_have_the_body_of_all_errors(server: Server) -> None:
    missing = got(f"{server.url}/v1/nothing")
    assert missing.status_code == 404
    assert missing.json()["error"]["message"] == "Not Found: GET /v1/nothing; see /docs"
    wrong = got(f"{server.url}/v1/audio/transcriptions")
    assert wrong.status_code == 405
    assert "Method Not Allowed" in wrong.json()["error"]["message"]
