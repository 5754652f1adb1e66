"""One graph for the load generator and for hostile clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auricle_testing.server import Server, serving


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """The default graph with the bundled models."""
    with serving() as running:
        yield running
