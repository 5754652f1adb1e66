"""The Grafana dashboard conforms to Grafana's own schema, and shows only existing metrics.

No package registry has a Grafana that could render it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import panelcfg_config
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from auricle_testing.metric_names import exported
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
_DASHBOARD = json.loads((ROOT / "deploy/grafana/auricle.json").read_text())
_PANELS = _DASHBOARD["panels"]
_QUERIES = [target["expr"] for panel in _PANELS for target in panel.get("targets", ())]


def unknown(mine: Any, grafanas: Any, at: str = "") -> Iterator[str]:
    """Fields of the dashboard that are missing after a round trip through Grafana's types."""
    if isinstance(mine, dict) and isinstance(grafanas, dict):
        for key, value in mine.items():
            if key in grafanas:
                yield from unknown(value, grafanas[key], f"{at}/{key}")
            else:
                yield f"{at}/{key}"
    elif isinstance(mine, list) and isinstance(grafanas, list) and len(mine) == len(grafanas):
        for number, (one, other) in enumerate(zip(mine, grafanas, strict=True)):
            yield from unknown(one, other, f"{at}/{number}")
    elif mine != grafanas:
        yield at


def read_by_grafana(dashboard: dict[str, Any]) -> dict[str, Any]:
    register_default_plugins()
    read = JSONEncoder().encode(Dashboard.from_json(copy.deepcopy(dashboard)))
    found: dict[str, Any] = json.loads(read)
    return found


def test_grafana_knows_every_field_panel_and_unit() -> None:
    assert list(unknown(_DASHBOARD, read_by_grafana(_DASHBOARD))) == []
    assert not [
        p["title"] for p in _PANELS if p["type"] != "row" and not panelcfg_config(p["type"])
    ]
    known = {value for name, value in vars(units).items() if name[0].isupper()}
    used = {p["fieldConfig"]["defaults"].get("unit", "none") for p in _PANELS if "fieldConfig" in p}
    assert used <= known


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (lambda panel: panel.update(titel="x"), "titel"),
        (lambda panel: panel["fieldConfig"]["defaults"].update(unitt="s"), "unitt"),
        (lambda panel: panel["options"]["tooltip"].update(mood="multi"), "mood"),
        (lambda panel: panel["targets"][0].update(exprr="up"), "exprr"),
    ],
)
def test_a_field_that_grafana_does_not_know_is_found(
    spoil: Callable[[dict[str, Any]], None], where: str
) -> None:
    spoilt = copy.deepcopy(_DASHBOARD)
    spoil(next(panel for panel in spoilt["panels"] if panel["type"] == "timeseries"))
    (found,) = unknown(spoilt, read_by_grafana(spoilt))
    assert found.endswith(where)


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
    """Every new metric must be shown or listed as an exception."""
    elsewhere = {
        "auricle_build_info",
        "auricle_processor_partials_total",
        "auricle_processor_finals_total",
        "auricle_processor_sessions_done_total",
        "auricle_processor_sessions_failed_total",
        "auricle_processor_audio_seconds_total",
        "auricle_processor_chunk_seconds_p997",  # admission uses it; chunk_seconds is shown
        "auricle_processor_windows_encoded_total",
        "auricle_encode_worker_blocks_convolved_total",
        "auricle_encode_worker_batch_limit",  # a setting, until a device's memory is too small
        "auricle_encode_worker_slots_spoiled_total",
        "auricle_internal_messages_refused_total",
        "auricle_internal_incompatible_instances",  # in an upgrade; `auricle doctor` judges it
        "auricle_internal_local_calls_total",
        "auricle_internal_local_calls_in_flight",
        "auricle_internal_local_connections",
        "auricle_pd_worker_prompt_tokens_total",
        "auricle_pd_worker_timed_read_bytes_per_second",  # `auricle doctor` judges it
        "auricle_align_worker_timed_read_bytes_per_second",
    }
    shown = set(re.findall(r"auricle_\w+", " ".join(_QUERIES))) | elsewhere
    samples = {n for n in exported() if not n.endswith(("_created", "_sum", "_count"))}
    counters = {n.removesuffix("_total") for n in samples if n.endswith("_total")}
    histograms = {n.removesuffix("_bucket") for n in samples if n.endswith("_bucket")}
    assert samples - counters - histograms <= shown
