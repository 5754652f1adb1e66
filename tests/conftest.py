"""Fixtures, and two house rules: every test has one category, and leaves no task behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.server import Server, serving

# Dynamo's runtime in the test's own process says at INFO that it is being left.
os.environ.setdefault("DYN_LOG", "warn")
CATEGORIES = {"unit", "integration", "end_to_end"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test without a category, or with two, is a mistake."""
    for item in items:
        found = CATEGORIES & {mark.name for mark in item.iter_markers()}
        if len(found) != 1:
            raise pytest.UsageError(f"{item.nodeid} needs exactly one of {sorted(CATEGORIES)}")


@pytest.fixture(autouse=True)
async def no_task_is_left() -> Iterator[None]:
    """A task that outlives its test has no owner."""
    before = asyncio.all_tasks()
    yield
    # This fixture's two halves are tasks themselves.
    left = [t for t in asyncio.all_tasks() - before - {asyncio.current_task()} if not t.done()]
    for task in left:
        task.cancel()
    assert not left, f"tasks left running: {left}"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The default graph with the bundled model, shared by all tests that do not break it."""
    with serving("--PdWorker.max_model_len=2048") as running:
        yield running
