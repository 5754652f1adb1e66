"""Reads the metrics that a process serves."""

from __future__ import annotations

from collections.abc import Iterable

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def parsed(text: str) -> list[Sample]:
    """Return all samples of Prometheus' text format."""
    return [one for family in text_string_to_metric_families(text) for one in family.samples]


def scraped(url: str, seconds: float = 60.0) -> list[Sample]:
    """Return all samples of a process. Raises httpx.HTTPError without an answer in `seconds`."""
    return parsed(httpx.get(f"{url}/metrics", timeout=seconds).raise_for_status().text)


def values(samples: Iterable[Sample], name: str, **labels: str) -> list[float]:
    """Return the values of a metric's samples with these labels."""
    return [
        one.value for one in samples if one.name == name and labels.items() <= one.labels.items()
    ]


def total(url: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples with these labels. Raises as `scraped` does."""
    return sum(values(scraped(url), name, **labels))
