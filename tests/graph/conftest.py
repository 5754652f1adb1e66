"""One graph for all tests that leave it unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auricle_testing.server import Server, free_port, frontend_beside, serving


@pytest.fixture(scope="package")
def wyoming_port() -> int:
    """The port of Wyoming on the graph's frontend."""
    return free_port()


@pytest.fixture(scope="package")
def server(wyoming_port: int) -> Iterator[Server]:
    """The default graph with the bundled models."""
    with serving(
        f"--Frontend.wyoming_port={wyoming_port}",
        "--Frontend.turn_model=models/smart-turn/smart-turn-v3.2-cpu.onnx",
    ) as running:
        yield running


@pytest.fixture(scope="package")
def grpc_address(server: Server) -> Iterator[str]:
    """The gRPC address of one more frontend of the graph."""
    port = free_port()
    with frontend_beside(server, f"--Frontend.grpc_port={port}"):
        yield f"127.0.0.1:{port}"
