"""vLLM's environment variables, unless the user has set them."""

from __future__ import annotations

import os

import pytest

from auricle.workers.pd.vllm.process import set_defaults

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
