"""The engine for tests of a graph (AURICLE_TEST_ENGINE), and its missing capabilities."""

from __future__ import annotations

import os

import pytest

from auricle.config.settings import PdWorkerSettings
from auricle.workers.pd.engine import EngineCapabilities
from auricle.workers.pd.engine_start import engine_kind

_GIVEN = os.environ.get("AURICLE_TEST_ENGINE")
_SETTINGS = PdWorkerSettings.model_validate({"engine": _GIVEN} if _GIVEN else {})
ENGINE = _SETTINGS.engine
# Tests require of an engine only the capabilities that it declares.
CAPABILITIES: EngineCapabilities = engine_kind(ENGINE).capabilities(_SETTINGS)

needs_kv_events = pytest.mark.skipif(
    not CAPABILITIES.kv_events, reason=f"the engine {ENGINE} declares no KV events"
)
of_an_engines_process = pytest.mark.skipif(
    ENGINE == "transformers", reason="transformers runs in the worker's own process"
)
