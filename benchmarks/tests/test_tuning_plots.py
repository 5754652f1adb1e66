"""The plots of docs/tuning.md show the latest published tables."""

from __future__ import annotations

import pytest

from auricle_testing.server import ROOT
from benchmarks.tuning import (
    KINDS,
    PLOTS,
    drawn_from,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", KINDS)
def test_a_plot_is_of_the_published_rows_and_on_the_page(name: str) -> None:
    rows, _ = KINDS[name]
    assert drawn_from(PLOTS / f"{name}.svg") == rows(), "run: python -m benchmarks.tuning"
    assert f"../benchmarks/plots/{name}.svg)" in (ROOT / "docs/tuning.md").read_text()
