"""docs/observability.md names every metric, and only existing ones."""

from __future__ import annotations

import pytest

from auricle_testing.metric_names import documented, registered

pytestmark = pytest.mark.unit


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    assert documented().keys() == registered().keys()


def test_labels_are_documented() -> None:
    assert documented() == registered()
