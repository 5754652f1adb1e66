"""The minimum pace of an upload."""

from __future__ import annotations

import pytest

from auricle.core.errors import TooSlow
from auricle.frontend.recordings.uploads import UploadLimits, UploadPace

pytestmark = pytest.mark.unit
LIMITS = UploadLimits(
    idle_seconds=30.0, bytes_per_second=1000.0, window_seconds=15.0, deadline_seconds=100.0
)


def test_an_upload_at_the_rate_is_taken() -> None:
    pace = UploadPace(LIMITS)
    for _ in range(99):
        pace.received(1000, 1.0)
    with pytest.raises(TooSlow, match="took longer than 100 s"):
        pace.received(1000, 1.0)


def test_a_byte_now_and_then_is_too_slow_after_one_window() -> None:
    pace = UploadPace(LIMITS)
    pace.received(1, 5.0)
    pace.received(1, 5.0)
    with pytest.raises(TooSlow, match="slower than 1000 bytes a second, the mean of 15 s"):
        pace.received(1, 5.0)


def test_a_fast_beginning_does_not_pay_for_what_follows() -> None:
    pace = UploadPace(LIMITS)
    pace.received(100_000_000, 0.1)
    pace.received(1, 14.9)
    with pytest.raises(TooSlow):
        pace.received(14_000, 15.0)


def test_a_pause_within_a_window_is_no_slowness() -> None:
    pace = UploadPace(LIMITS)
    pace.received(16_000, 1.0)
    pace.received(1, 13.0)
    pace.received(1, 1.0)


def test_a_long_wait_counts_in_full() -> None:
    pace = UploadPace(LIMITS)
    with pytest.raises(TooSlow):
        pace.received(20_000, 29.0)


def test_time_in_which_the_server_did_not_wait_does_not_count() -> None:
    pace = UploadPace(LIMITS)
    for _ in range(1000):
        pace.received(1, 0.0)


def test_nothing_at_all_is_waited_for_until_the_first_deadline() -> None:
    pace = UploadPace(LIMITS)
    assert pace.wait_seconds == 30.0
    assert "the next part of the upload took longer than 30 s" in str(pace.stalled())
    for _ in range(80):
        pace.received(1000, 1.0)
    assert pace.wait_seconds == 20.0
    assert "the upload took longer than 100 s" in str(pace.stalled())


def test_an_upload_that_has_brought_much_must_bring_more() -> None:
    """It cannot bring almost all at once and hold it until its deadline."""
    pace = UploadPace(LIMITS)
    pace.received(1_000_000, 15.0)
    pace.received(150_000, 15.0)
    with pytest.raises(TooSlow, match="slower than 11500 bytes a second, the mean of 15 s"):
        pace.received(150_000, 15.0)
