"""docs/accuracy.md quotes the current results."""

from __future__ import annotations

import re

import pytest

from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
QUOTED = re.findall(
    r"^\|[^|\n]+\| `(\w+)` \| (\S+) \|$", (ROOT / "docs/accuracy.md").read_text(), re.MULTILINE
)


def results() -> dict[str, str]:
    """Each figure of RESULTS.md with its formatted value; a row may have several of both."""
    found: dict[str, str] = {}
    text = (ROOT / "benchmarks/RESULTS.md").read_text()
    for names, values in re.findall(
        r"^\| (\w+(?:, \w+)*) \|[^|\n]*\| ([^|\n]+?) \|", text, re.MULTILINE
    ):
        known, measured = names.split(", "), values.split(", ")
        if len(known) == len(measured):
            found |= dict(zip(known, measured, strict=True))
    return found


def test_there_is_something_to_compare() -> None:
    assert len(QUOTED) >= 14
    assert results()["wer_oneshot"] == "0.0307"


@pytest.mark.parametrize(("figure", "value"), QUOTED)
def test_a_figure_is_the_one_of_the_results(figure: str, value: str) -> None:
    assert results()[figure] == value
