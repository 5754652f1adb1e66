"""Errors that other processes report by their code."""

from __future__ import annotations

import pytest

from auricle.core.errors import PoolMissing, WorkerUnavailable, from_code

pytestmark = pytest.mark.unit


def test_a_code_that_classes_share_is_the_code_of_their_base() -> None:
    assert PoolMissing.code == WorkerUnavailable.code
    assert type(from_code("unavailable", "lost")) is WorkerUnavailable
