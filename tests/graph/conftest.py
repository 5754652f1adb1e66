"""One graph for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import Server, serving


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """The default graph with the bundled model."""
    with serving() as running:
        yield running
