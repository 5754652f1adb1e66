"""Sessions over generated histories.

A history has repeated pushes, decodes without room, hand-overs and deaths of processors, in any
order. `histories.py` checks the invariants at the places where they could break: committed text
only grows, every sample of speech is in exactly one segment, no word is lost, duplicated or revoked
by any processor, and every session ends.
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
LENGTH = 36  # choices in one history
SEED = 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_a_session_keeps_its_word_whatever_happens(history: bytes) -> None:
    World(history).run()


@pytest.mark.timeout(1800)  # a hundred thousand take minutes
def test_thousands_of_sessions_keep_their_word() -> None:
    """The same checks for many more histories, without a search for the smallest failing one."""
    chance = random.Random(SEED)
    for _ in range(HISTORIES):
        history = chance.randbytes(LENGTH)
        try:
            World(history).run()
        except Exception as error:
            error.add_note(f"the history was {history!r}")
            raise
