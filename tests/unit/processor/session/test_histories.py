"""Sessions over generated histories: pieces that come again, decodes that find no room,
hand-overs and deaths of processors, in any order.

What must hold is checked in `histories.py`, where it could break: committed text only
grows, every sample of speech lies in exactly one segment, no word is lost, doubled or taken
back, whichever processor had the session; and every session ends.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.histories import World

pytestmark = pytest.mark.unit
# `make histories` runs a hundred thousand.
HISTORIES = int(os.environ.get("AURICLE_TEST_HISTORIES", "5000"))
LENGTH = 36  # choices of one history
SEED = 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_a_session_keeps_its_word_whatever_happens(history: bytes) -> None:
    World(history).run()


@pytest.mark.timeout(1800)  # a hundred thousand take minutes
def test_thousands_of_sessions_keep_their_word() -> None:
    """The same over many more, made without looking for the smallest that fails."""
    chance = random.Random(SEED)
    for _ in range(HISTORIES):
        history = chance.randbytes(LENGTH)
        try:
            World(history).run()
        except Exception as error:
            error.add_note(f"the history was {history!r}")
            raise
