"""Two house rules: every test has one category, and leaves no task behind."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.distribution import ByGraph, graphs_at_a_time

# Collecting the tests imports a million permanent objects; searching them for garbage takes a
# quarter of the time.
_USUAL = gc.get_threshold()
gc.set_threshold(100_000)
# Dynamo's runtime logs at INFO when the test's own process leaves it.
os.environ.setdefault("DYN_LOG", "warn")
# The duration of an example depends only on the machine.
settings.register_profile("auricle", deadline=None)
settings.load_profile("auricle")
# Tests do not use models that were pulled on this machine.
_MODELS = tempfile.TemporaryDirectory(prefix="auricle-models-")
os.environ["AURICLE_MODELS"] = _MODELS.name
_ENDING_SECONDS = 60.0
CATEGORIES = {"unit", "integration", "end_to_end"}


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGraph:
    """How `pytest -n` distributes tests."""
    return ByGraph(config, log, graphs_at_a_time(config.option.numprocesses))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test without a category, or with two, is a mistake; so is a unit test of a deployment."""
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        if len(found := CATEGORIES & names) != 1:
            raise pytest.UsageError(f"{item.nodeid} needs exactly one of {sorted(CATEGORIES)}")
        if "deployment" in names and "unit" in found:
            raise pytest.UsageError(
                f"{item.nodeid} has the marker deployment, so it cannot be a unit test"
            )


def pytest_collection_finish() -> None:
    """Resume normal garbage collection, without the imported objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)


@pytest.fixture(autouse=True)
async def no_task_is_left() -> Iterator[None]:
    """A task that outlives its test has no owner."""
    before = asyncio.all_tasks()
    yield
    # This fixture's two halves are tasks themselves.
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    # A cancelled task may still be ending, and gRPC's server stops before its last tasks do.
    if ending := {task for task in left if task.cancelling() or _of_grpc(task)}:
        await asyncio.wait(ending, timeout=_ENDING_SECONDS)
    left = {task for task in left if not task.done()}
    for task in left:
        task.cancel()
    assert not left, f"tasks left running: {left}"


def _of_grpc(task: asyncio.Task[Any]) -> bool:
    """Whether gRPC's server created it; the server does not report its end."""
    return task.get_name() == "rpc_task" or task.get_name().startswith("HandleExceptions[")
