"""Sessions over generated histories: pieces that come again, decodes that find no room,
hand-overs and deaths of processors, in any order.

What must hold is checked in `histories.py`, where it could break: committed text only
grows, every sample of speech lies in exactly one segment, no word is lost, doubled or taken
back, whichever processor had the session; and every session ends.
"""

from __future__ import annotations

import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.histories import World

pytestmark = pytest.mark.unit
HISTORIES = 100_000
LENGTH = 36  # choices of one history
PROCESSES = 2


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_a_session_keeps_its_word_whatever_happens(history: bytes) -> None:
    World(history).run()


@pytest.mark.timeout(900)  # as long as it takes where both cores are slow and busy
def test_a_hundred_thousand_sessions_keep_their_word() -> None:
    """The same over many more, made without looking for the smallest that fails."""
    each = HISTORIES // PROCESSES
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as processes:
        assert sum(processes.map(heard, range(PROCESSES), [each] * PROCESSES)) == HISTORIES


def heard(seed: int, count: int) -> int:
    """Run so many histories; how many there were."""
    chance = random.Random(seed)
    for _ in range(count):
        history = chance.randbytes(LENGTH)
        try:
            World(history).run()
        except Exception as error:
            error.add_note(f"the history was {history!r}")
            raise
    return count
