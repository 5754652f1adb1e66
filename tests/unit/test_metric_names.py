"""docs/observability.md names every metric there is, and none that is not."""

from __future__ import annotations

import re

import pytest

from tests.server import ROOT
from tests.unit.test_dashboard import exported

pytestmark = pytest.mark.unit
_PAGE = (ROOT / "docs/observability.md").read_text()
_NAME = re.compile(r"`(auricle_[\w{},]+)`")


def documented() -> dict[str, set[str]]:
    """Names of the page, with their labels; `auricle_{a,b}_c{label}` are two names."""
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
    """Names of the code as Prometheus sees them, histograms once."""
    samples = {n: labels for n, labels in exported().items() if not n.endswith("_created")}
    parts = ("_bucket", "_sum", "_count")
    histograms = {n.removesuffix("_bucket") for n in samples if n.endswith("_bucket")}
    summaries = {n.removesuffix("_sum") for n in samples if n.endswith("_sum")}
    counters = {n.removesuffix("_total") for n in samples if n.endswith("_total")}
    single = {n for n in samples if not n.endswith(parts)} - counters
    return {name: samples[name] for name in single | histograms | summaries}


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    assert documented().keys() == registered().keys()


def test_labels_are_documented() -> None:
    assert documented() == registered()
