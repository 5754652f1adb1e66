"""Names in the documents exist in the code, and the documents have all public names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from auricle_testing import documents

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("page", documents.PAGES)
def test_every_name_on_a_page_exists(page: str) -> None:
    assert documents.missing_on(page) == []


@pytest.mark.parametrize(
    "names",
    [
        documents.missing_messages,
        documents.missing_variables,
        documents.undocumented_settings,
        documents.undocumented_commands,
        documents.undocumented_messages,
    ],
)
def test_documents_and_code_have_the_same_names(names: Callable[[], list[str]]) -> None:
    assert names() == []


def test_the_live_protocol_is_looked_at() -> None:
    assert {"start", "end", "partial", "final"} <= documents.tags()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("`auricle_no_such_metric`", "auricle_no_such_metric"),
        ("`Frontend.no_such_key`", "Frontend.no_such_key"),
        ("`Planner.pd.no_such_key`", "Planner.pd.no_such_key"),
        ("`auricle nothing FILE`", "auricle nothing FILE"),
        ("`auricle doctor URL --nothing`", "auricle doctor --nothing"),
        ("```\n$ make nothing\n```", "make nothing"),
        ("`python -m benchmarks.nothing.at_all`", "python -m benchmarks.nothing.at_all"),
        ("`deploy/nothing.yaml`", "deploy/nothing.yaml"),
        ("`processor/nothing.py`", "processor/nothing.py"),
    ],
)
def test_a_name_that_does_not_exist_is_found(
    monkeypatch: pytest.MonkeyPatch, line: str, named: str
) -> None:
    monkeypatch.setitem(documents.PAGES, "a page", f"See {line}; `auricle serve` serves.\n")
    if line.startswith("```"):
        monkeypatch.setitem(documents.PAGES, "a page", line)
    assert documents.missing_on("a page") == [named]
