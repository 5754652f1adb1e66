"""Baselines get what ours gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import yaml

from auricle.frontend.listening.pieces import Piece
from auricle.messages.sessions import Boundary
from benchmarks.baselines.live import Options, Session
from benchmarks.baselines.live_segments import Cutter, as_delivered, limits_of

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]
SECOND = 16_000


def ends(*pieces: tuple[float, Boundary]) -> list[bool]:
    """Whether a segment ends with each piece of so many seconds."""
    cutter, at, made = Cutter(limits_of(as_delivered())), 0, []
    for seconds, boundary in pieces:
        made.append(Piece(at, np.zeros(int(seconds * SECOND), np.int16), boundary))
        at = made[-1].end
    return [end for _, _, end in cutter.push(made)]


def test_segments_of_a_live_baseline_are_as_long_as_those_of_the_demo() -> None:
    common = yaml.safe_load((ROOT / "configs/demo.yaml").read_text())["Common"]
    limits = limits_of(as_delivered())
    assert limits.pause_after == common["pause_after_seconds"] * SECOND
    assert limits.maximum == common["max_segment_seconds"] * SECOND


def test_segments_of_a_live_baseline_end_with_speech_at_a_pause_and_when_they_are_long() -> None:
    assert ends((1.0, "none"), (1.0, "pause"), (1.5, "pause")) == [False, False, True]
    assert ends((1.0, "endpoint"), (1.0, "none")) == [True, False]
    assert ends((19.0, "none"), (2.0, "none"), (1.0, "none")) == [False, True, False]


def test_a_live_baseline_does_not_decode_speech_that_ends_right_at_a_cut() -> None:
    nobody = cast(Any, None)
    session = Session(nobody, Options(None), nobody)
    session.heard(0, np.zeros(SECOND, np.int16), True)
    session.heard(SECOND, np.zeros(0, np.int16), True)
    session.heard(SECOND, np.zeros(SECOND, np.int16), True)
    assert [(s.start, s.samples) for s in session.finished] == [(0, SECOND), (SECOND, SECOND)]
