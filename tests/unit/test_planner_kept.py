"""Scores of an interrupted benchmark: played once, and again once their sources change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.planner.cluster import Score
from benchmarks.planner.kept import OURS, RIVALS, kept

pytestmark = pytest.mark.unit
SCORE = Score(gpu_hours=12.5, slo=0.991, worst_minutes=0.5)


class Player:
    def __init__(self) -> None:
        self.played = 0

    def __call__(self) -> Sequence[Score]:
        self.played += 1
        return [SCORE, SCORE]


def test_scores_are_played_once_and_come_back_as_they_were(tmp_path: Path) -> None:
    play = Player()
    folder = tmp_path / "played"
    first = kept(folder, "pareto-16", RIVALS, play)
    assert kept(folder, "pareto-16", RIVALS, play) == first == (SCORE, SCORE)
    assert play.played == 1
    kept(folder, "pareto-128", RIVALS, play)
    assert play.played == 2


def test_scores_of_sources_that_changed_are_played_again(tmp_path: Path) -> None:
    play, source = Player(), tmp_path / "source.py"
    for text, played in (("a = 1", 1), ("a = 2", 2), ("a = 1", 2)):
        source.write_text(text)
        kept(tmp_path, "name", [source], play)
        assert play.played == played


def test_without_a_folder_nothing_is_kept() -> None:
    play = Player()
    kept(None, "name", OURS, play)
    kept(None, "name", OURS, play)
    assert play.played == 2


def test_the_planners_own_modules_are_among_the_sources_of_its_scores() -> None:
    names = {source.name for source in OURS}
    assert {"margin.py", "forecast.py", "policy.py", "settings.py", "cluster.py"} <= names
    assert all(source.exists() for source in (*OURS, *RIVALS))
