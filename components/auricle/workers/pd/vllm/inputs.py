"""Inputs of our models for vLLM's memory profiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm.multimodal.processing import BaseDummyInputsBuilder


class NoDummyInputs(BaseDummyInputsBuilder[Any]):
    """No inputs: vLLM's profiling of multimodal inputs is skipped."""

    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        return ""

    def get_dummy_mm_data(
        self, seq_len: int, mm_counts: Mapping[str, int], mm_options: Any
    ) -> dict[str, Any]:
        return {}
