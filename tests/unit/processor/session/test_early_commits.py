"""Sessions that commit text as soon as two decodes agree on it."""

from __future__ import annotations

import pytest

from auricle.config.settings import ProcessorSettings
from auricle.processor.session.rules import SessionRules
from auricle.processor.session.stability import Stability
from auricle.protocol.sessions import OpenSession

pytestmark = pytest.mark.unit
CHUNK = 320 * 16


def committed(*, commit_early: bool) -> list[int]:
    """The number of committed tokens after each of six decodes; each adds one word to the text."""
    opened = OpenSession("s", "default", None, "", chunk_ms=320, commit_early=commit_early)
    rules = SessionRules.of(opened, ProcessorSettings()).commit
    state, after = Stability(), []
    for number in range(1, 7):
        words = tuple(range(number + 2))
        state = state.after(
            words[len(state.committed) :],
            number * CHUNK,
            rules=rules,
            ends_whole=lambda _: True,
        )
        after.append(len(state.committed))
    return after


def test_two_decodes_that_agree_are_enough() -> None:
    assert committed(commit_early=True) == [0, 2, 3, 4, 5, 6]


def test_usually_it_takes_longer() -> None:
    assert committed(commit_early=False) == [0, 0, 0, 1, 3, 4]


def test_a_long_chunk_does_not_make_a_session_slower_than_usual() -> None:
    settings = ProcessorSettings()
    for commit_early in (False, True):
        opened = OpenSession("s", "default", None, "", chunk_ms=5_000, commit_early=commit_early)
        rules = SessionRules.of(opened, settings)
        assert rules.commit.settled_samples == int(settings.settled_seconds * 16_000)
