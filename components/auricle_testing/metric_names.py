"""Names of metrics: the ones that the code exports and the ones in docs/observability.md."""

from __future__ import annotations

import re
from types import SimpleNamespace

from prometheus_client import Info

from auricle.config.settings import FrontendSettings
from auricle.dynamo.incompatible import incompatible_gauge
from auricle.dynamo.local.frames import LocalMetrics
from auricle.dynamo.refusals import Refusals
from auricle.frontend.exporters.nats import NatsBus
from auricle.frontend.metrics import FrontendMetrics
from auricle.load.reporter import LoadGauges
from auricle.planner.service import PlannerMetrics
from auricle.process.metrics import Registry
from auricle.processor.metrics import ProcessorMetrics
from auricle.workers.align.worker import AlignWorkerMetrics
from auricle.workers.diarize.worker import DiarizeWorkerMetrics
from auricle.workers.encode.worker import EncodeWorkerMetrics
from auricle.workers.pd.metrics import PdWorkerMetrics
from auricle.workers.translate.worker import TranslateWorkerMetrics
from auricle_testing.server import ROOT

_PAGE = (ROOT / "docs/observability.md").read_text()
_NAME = re.compile(r"`(auricle_[\w{},]+)`")


def exported() -> dict[str, set[str]]:
    """Sample names of all components' metrics, with their label names."""
    registry = Registry().registry
    store = SimpleNamespace(slots_in_use=lambda: 0, open_leases=lambda: 0, slots=lambda: 1)
    FrontendMetrics(registry, FrontendSettings.model_validate({}))
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
    incompatible_gauge(registry)
    LocalMetrics(registry)
    names: dict[str, set[str]] = {}
    for collector in registry._collector_to_names:
        if isinstance(collector, Info):
            names[f"{collector._name}_info"] = set(collector._value)
            continue
        labels = set(getattr(collector, "_labelnames", ()))
        for name in registry._collector_to_names[collector]:
            # Encode workers' processes export the label `pool`: they form two pools.
            of_pool = {"pool"} if name.startswith("auricle_encode_worker_") else set()
            names[name] = labels | of_pool
    # Prometheus' client library exports the others for any process.
    return {name: labels for name, labels in names.items() if name.startswith("auricle_")}


def documented() -> dict[str, set[str]]:
    """The names on the page, with their labels; `auricle_{a,b}_c{label}` stands for two names."""
    found: dict[str, set[str]] = {}
    for text in _NAME.findall(_PAGE):
        bare, _, labels = (
            text.removesuffix("}").rpartition("{") if text[-1] == "}" else (text, "", "")
        )
        several = re.fullmatch(r"auricle_\{([\w,]+)\}(\w+)", bare)
        names = (
            [f"auricle_{component}{several[2]}" for component in several[1].split(",")]
            if several
            else [bare]
        )
        for name in names:
            found[name] = {label for label in labels.split(",") if label}
    return found


def registered() -> dict[str, set[str]]:
    """The names in the code as Prometheus has them; a histogram is one name."""
    samples = {n: labels for n, labels in exported().items() if not n.endswith("_created")}
    parts = ("_bucket", "_sum", "_count")
    histograms = {n.removesuffix("_bucket") for n in samples if n.endswith("_bucket")}
    summaries = {n.removesuffix("_sum") for n in samples if n.endswith("_sum")}
    counters = {n.removesuffix("_total") for n in samples if n.endswith("_total")}
    single = {n for n in samples if not n.endswith(parts)} - counters
    return {name: samples[name] for name in single | histograms | summaries}
