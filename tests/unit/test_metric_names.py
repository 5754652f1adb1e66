"""docs/observability.md names every metric; it, tests and benchmarks name only existing ones."""

from __future__ import annotations

import re

import pytest

from auricle_testing.metric_names import documented, exported, registered
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
# Readers count a missing metric as 0.
_READ = re.compile(r'"(auricle_(?:frontend|processor|planner|internal|[a-z]+_worker)_\w*[a-z0-9])"')


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    assert documented().keys() == registered().keys()


def test_labels_are_documented() -> None:
    assert documented() == registered()


def test_metrics_that_tests_and_benchmarks_read_exist() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    read = {name for file in files for name in _READ.findall(file.read_text())}
    assert read
    assert read <= exported().keys()
