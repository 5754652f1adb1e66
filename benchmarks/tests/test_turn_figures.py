"""The arithmetic of the benchmark of turns."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.turn_detection import TurnWait
from benchmarks.annotations.turns import Case, Listener, row, table

pytestmark = pytest.mark.unit
LOUD, QUIET = 20, 25  # frames
RESUMES = (LOUD + QUIET) * VAD_FRAME


class Sure(Listener):
    """Without models: a turn is over, with this probability, if it is longer than the pause."""

    def __init__(self, within: float, after: float) -> None:
        self._within, self._after = within, after

    def probability(self, turn: Int16) -> float:
        return self._after if len(turn) > RESUMES else self._within


def turn() -> Case:
    frames = [0.9] * LOUD + [0.0] * QUIET + [0.9] * LOUD + [0.0] * 320
    return Case(np.zeros(len(frames) * VAD_FRAME, np.int16), RESUMES, frames)


def test_a_turn_that_ends_in_the_pause_is_a_false_cut_and_counts_its_delay() -> None:
    options = EndpointingOptions(0.5, 320, 300)
    found = row("silence", [turn()] * 2, Sure(0, 0), options)
    assert (found.turns, found.false_cuts) == (2, 1.0)
    assert found.delay_ms_mean == found.delay_ms_p95 == 320
    patient = row("silence", [turn()] * 2, Sure(0, 0), EndpointingOptions(0.5, 900, 300))
    assert patient.false_cuts == 0.0
    assert patient.delay_ms_mean == 928  # the frame at which 900 ms are over


def test_silence_is_as_fast_as_the_turn_model() -> None:
    rows = table([turn()] * 2, Sure(within=0.1, after=0.9))
    for semantic, silence in zip(rows[::2], rows[1::2], strict=True):
        assert semantic.delay_ms_mean == silence.delay_ms_mean == 224
        assert (semantic.false_cuts, silence.false_cuts) == (0.0, 1.0)


def test_a_model_that_is_wrong_is_shown_to_be() -> None:
    options = EndpointingOptions(0.5, 320, 300, TurnWait(0.5, 1_000))
    assert row("medium", [turn()] * 2, Sure(within=0.9, after=0.9), options).false_cuts == 1.0
    unsure = row("medium", [turn()] * 2, Sure(within=0.0, after=0.0), options)
    assert unsure.false_cuts == 0.0
    assert unsure.delay_ms_mean == pytest.approx(1_000, abs=32)
