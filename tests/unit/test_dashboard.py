"""The Grafana dashboard shows metrics that exist."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from prometheus_client import Info

from auricle.align_worker.metrics import AlignWorkerMetrics
from auricle.diarize_worker.metrics import DiarizeWorkerMetrics
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.observers.nats_bus import NatsBus
from auricle.load.reporter import LoadGauges
from auricle.pd_worker.metrics import PdWorkerMetrics
from auricle.pd_worker.translate.metrics import TranslateWorkerMetrics
from auricle.planner.metrics import PlannerMetrics
from auricle.process.metrics import Registry
from auricle.processor.metrics import ProcessorMetrics
from auricle.runtime.local.metrics import LocalMetrics
from auricle.runtime.refusals import Refusals
from auricle.settings import FrontendSettings
from tests.server import ROOT

pytestmark = pytest.mark.unit
_PANELS = json.loads((ROOT / "deploy/grafana/auricle.json").read_text())["panels"]
_QUERIES = [target["expr"] for panel in _PANELS for target in panel.get("targets", ())]


def exported() -> dict[str, set[str]]:
    """Sample names of all components' metrics, with their label names."""
    registry = Registry().registry
    store = SimpleNamespace(slots_in_use=lambda: 0, open_leases=lambda: 0, slots=lambda: 1)
    FrontendMetrics(registry, FrontendSettings())
    NatsBus("nats://localhost", "a", max_queued=1, keep_hours=1.0, registry=registry)
    ProcessorMetrics(registry)
    EncodeWorkerMetrics(registry, store)  # type: ignore[arg-type]
    PdWorkerMetrics(registry)
    LoadGauges("encode_worker", registry)
    LoadGauges("pd_worker", registry)
    AlignWorkerMetrics(registry)
    LoadGauges("align_worker", registry)
    DiarizeWorkerMetrics(registry)
    LoadGauges("diarize_worker", registry)
    TranslateWorkerMetrics(registry)
    LoadGauges("translate_worker", registry)
    PlannerMetrics(registry)
    Refusals(registry)
    LocalMetrics(registry)
    names: dict[str, set[str]] = {}
    for collector in registry._collector_to_names:
        if isinstance(collector, Info):
            names[f"{collector._name}_info"] = set(collector._value)
            continue
        labels = set(getattr(collector, "_labelnames", ()))
        for name in registry._collector_to_names[collector]:
            # In the processes of encode workers, which are of two pools.
            of_pool = {"pool"} if name.startswith("auricle_encode_worker_") else set()
            names[name] = labels | of_pool
    # The others are what Prometheus' client library tells of any process.
    return {name: labels for name, labels in names.items() if name.startswith("auricle_")}


@pytest.mark.parametrize("query", _QUERIES)
def test_every_metric_of_a_panel_is_exported(query: str) -> None:
    known = exported()
    used = re.findall(r"auricle_\w+", query)
    assert used
    assert not [name for name in used if name not in known]


@pytest.mark.parametrize("query", [q for q in _QUERIES if "by (" in q and "by (le)" not in q])
def test_every_label_of_a_panel_is_exported(query: str) -> None:
    known = exported()
    wanted = set(re.findall(r"by \((\w+)\)", query))
    assert wanted <= set().union(*(known[name] for name in re.findall(r"auricle_\w+", query)))


def test_every_metric_is_on_the_dashboard_or_named_here() -> None:
    """So that nobody adds a number and forgets to show it."""
    elsewhere = {
        "auricle_build_info",
        "auricle_processor_partials_total",
        "auricle_processor_finals_total",
        "auricle_processor_sessions_done_total",
        "auricle_processor_sessions_failed_total",
        "auricle_processor_audio_seconds_total",
        "auricle_processor_chunk_seconds_p997",  # what admission goes by; chunk_seconds is shown
        "auricle_processor_windows_encoded_total",
        "auricle_encode_worker_blocks_convolved_total",
        "auricle_encode_worker_batch_limit",  # a setting, until a device's memory is too small
        "auricle_encode_worker_slots_spoiled_total",
        "auricle_internal_messages_refused_total",
        "auricle_internal_local_calls_total",
        "auricle_internal_local_calls_in_flight",
        "auricle_internal_local_connections",
        "auricle_pd_worker_prompt_tokens_total",
    }
    shown = set(re.findall(r"auricle_\w+", " ".join(_QUERIES))) | elsewhere
    samples = {n for n in exported() if not n.endswith(("_created", "_sum", "_count"))}
    counters = {n.removesuffix("_total") for n in samples if n.endswith("_total")}
    histograms = {n.removesuffix("_bucket") for n in samples if n.endswith("_bucket")}
    assert samples - counters - histograms <= shown
