"""The reason of a failure of vLLM's engine is captured in the engine's process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from auricle.workers.pd.vllm import process as module
from auricle.workers.pd.vllm.process import capture_failures, failure_file, read_failure

pytestmark = pytest.mark.unit
VLLMS = logging.getLogger("vllm.v1.engine.core")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    kept = list(VLLMS.handlers)
    yield
    VLLMS.handlers[:] = kept


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The errors that may come from a device."""
    found: list[BaseException] = []
    monkeypatch.setattr(module, "end_if_sticky", lambda error, what: found.append(error))
    return found


def log(error: Exception) -> None:
    """Log like vLLM at the end of its engine."""
    try:
        raise error
    except type(error):
        VLLMS.exception("EngineCore failed to start.")


def test_an_error_is_written_for_the_process_that_starts_the_engine(
    met: list[BaseException],
) -> None:
    error = ValueError("No available memory for the cache blocks.\nTry another.")
    with failure_file() as file:
        capture_failures()
        capture_failures()  # vLLM calls a plug-in more than once
        assert read_failure(file) is None
        log(error)
        assert read_failure(file) == "No available memory for the cache blocks."
    assert met == [error]
    assert not file.exists()


def test_an_engine_that_runs_ends_with_its_device(met: list[BaseException]) -> None:
    with failure_file():
        capture_failures()
    VLLMS.error("no error of Python's")
    assert met == []
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    log(error)  # the file has disappeared meanwhile
    assert met == [error]
