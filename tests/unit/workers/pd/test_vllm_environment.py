"""vLLM's environment variables, unless the user has set them, and the log of its engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from auricle.workers.pd.vllm.process import pass_on_log_level, set_defaults, show_own_log

pytestmark = pytest.mark.unit
_SAMPLER = "VLLM_USE_FLASHINFER_SAMPLER"


def test_an_engine_on_a_gpu_needs_no_compiler_for_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    set_defaults()
    assert os.environ[_SAMPLER] == "0"


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {_SAMPLER: "1"})
    set_defaults()
    assert os.environ[_SAMPLER] == "1"


@pytest.fixture
def own_log() -> Iterator[logging.Logger]:
    """The logger of all our modules, as it is in a new process."""
    logger = logging.getLogger("auricle")
    level, handlers = logger.level, list(logger.handlers)
    logger.handlers[:] = []
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_the_engines_process_logs_as_its_worker_does(
    own_log: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    own_log.setLevel("INFO")
    pass_on_log_level()
    own_log.setLevel("ERROR")
    show_own_log()
    show_own_log()  # vLLM calls a plug-in more than once
    logging.getLogger("auricle.workers").info("attention by FLASH_ATTN")
    assert capsys.readouterr().err == "INFO auricle.workers: attention by FLASH_ATTN\n"
