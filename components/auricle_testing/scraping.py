"""Reads the metrics that a process serves."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

_SECONDS = 60.0


def totals(url: str, *names: str, **labels: str) -> list[float]:
    """Return the sums of these metrics' samples with these labels, all from one scrape.

    The sum of a metric without such samples is 0. Raises httpx.HTTPError without an answer.
    """
    text = httpx.get(f"{url}/metrics", timeout=_SECONDS).raise_for_status().text
    found = dict.fromkeys(names, 0.0)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in found and labels.items() <= sample.labels.items():
                found[sample.name] += sample.value
    return list(found.values())


def total(url: str, name: str, **labels: str) -> float:
    """Return one metric as `totals` does."""
    return totals(url, name, **labels)[0]
