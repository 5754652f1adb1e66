"""The plots of docs/tuning.md show what was published last."""

from __future__ import annotations

import pytest

from benchmarks.tuning import (
    KINDS,
    PLOTS,
    draw_block_sizes,
    draw_chunks,
    draw_encoder_work,
    draw_rollbacks,
    draw_segments,
    drawn_from,
    table,
)
from tests.server import ROOT

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", KINDS)
def test_a_plot_is_of_the_published_rows_and_on_the_page(name: str) -> None:
    rows, _ = KINDS[name]
    assert drawn_from(PLOTS / f"{name}.svg") == rows(), "run: python -m benchmarks.tuning"
    assert f"../benchmarks/plots/{name}.svg)" in (ROOT / "docs/tuning.md").read_text()


def test_a_table_is_found_by_its_first_heading_and_ends_with_itself() -> None:
    document = "| `a` | b |\n|---|---|\n| 1 | x |\n\n| c | d |\n|---|---|\n| 2 | `y` |\n| 3 | z |\n"
    assert table(document, "a") == [["a", "b"], ["1", "x"]]
    assert table(document, "c") == [["c", "d"], ["2", "y"], ["3", "z"]]
    with pytest.raises(ValueError, match="no table begins with 'e'"):
        table(document, "e")


def test_each_kind_of_speech_has_a_line_with_context_and_one_without() -> None:
    rows = [
        ["seconds", "characters", "lists"],
        ["2", "0", "5.5%"],
        ["2", "120", "6%"],
        ["3", "0", "7%"],
    ]
    without, with_context = draw_segments(rows).axes[0].get_lines()
    assert without.get_xydata().tolist() == [[2, 5.5], [3, 7]]
    assert with_context.get_xydata().tolist() == [[2, 6]]


def test_a_block_size_has_a_bar_in_both_plots() -> None:
    rows = [
        ["size", "hit", "all", "time"],
        ["32 (ours)", "0.9", "0.5", "1"],
        ["64", "0.8", "0.5", "1.1"],
    ]
    found, time = (
        [bar.get_height() for bar in axes.patches] for axes in draw_block_sizes(rows).axes
    )
    assert found == [0.9, 0.8] and time == [1, 1.1]


def test_a_geometry_has_a_bar_for_each_way_of_encoding() -> None:
    rows = [["geometry", "way", "w", "b", "work", "ratio"]]
    rows += [["demo", way, "", "", work, ""] for way, work in (("again", "1.5"), ("new", "0.5"))]
    (axes,) = draw_encoder_work([*rows]).axes
    assert [bar.get_width() for bar in axes.patches] == [1.5, 0.5]


def test_a_chunk_has_a_point_in_each_of_three_plots() -> None:
    rows = [["chunk_ms", *"abcdefgh"]]
    rows += [["320", "3", "9", "8", "0.5", "1", "2", "7.5", "3.5%"]]
    rows += [["640", "1.5", "5", "4", "0.7", "1.4", "2.2", "5", "3%"]]
    work, late, words = draw_chunks(rows).axes
    assert [line.get_ydata().tolist() for line in work.get_lines()] == [[3, 1.5], [9, 5], [8, 4]]
    assert late.get_lines()[0].get_ydata().tolist() == [0.5, 0.7]
    assert [line.get_ydata().tolist() for line in words.get_lines()] == [[7.5, 5], [3.5, 3]]


def test_rules_of_one_time_to_settle_are_one_line() -> None:
    rows = [["rollback_tokens", "settled_seconds", "a", "b", "c", "d"]]
    rows += [["2", "0.6", "0.9", "1.5", "1%", ""], ["5", "0.6", "1", "1.6", "0.5%", ""]]
    rows += [["2", "1.2", "1.2", "2", "0.8%", ""]]
    median, high = draw_rollbacks(rows).axes
    assert [line.get_xydata().tolist() for line in median.get_lines()] == [
        [[0.9, 1], [1, 0.5]],
        [[1.2, 0.8]],
    ]
    assert high.get_lines()[0].get_xdata().tolist() == [1.5, 1.6]
