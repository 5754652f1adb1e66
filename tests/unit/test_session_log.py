"""One line for a session that ends; refused clients cannot flood the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from auricle.frontend.doors.session_log import RefusalLog, log_ended

pytestmark = pytest.mark.unit


def test_a_session_that_ends_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_ended("session", "sess_1", "stream", 12.3456, "client_gone")
    (record,) = caplog.records
    assert record.message == "session sess_1 ended: client_gone, stream, 12.3 s of audio"
    assert record.__dict__["audio_seconds"] == 12.346
    assert record.__dict__["outcome"] == "client_gone"


def test_refusals_beyond_the_first_are_counted_and_summarised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    due: list[Callable[[], None]] = []
    refusals = RefusalLog(lambda _seconds, call: due.append(call), lines=2, period_seconds=60)
    for number in range(1000):
        code = "overloaded" if number % 10 == 0 else "invalid_api_key"
        refusals.refused(f"10.0.0.1:{number}", code, "not today")
    assert len(due) == 1
    due.pop()()
    assert [record.message for record in caplog.records] == [
        "client 10.0.0.1:0 refused: not today",
        "client 10.0.0.1:1 refused: not today",
        "998 more clients refused within 60 s: 899 invalid_api_key, 99 overloaded",
    ]
    refusals.refused("10.0.0.2:1", "forbidden", "switched off")
    assert caplog.records[-1].message == "client 10.0.0.2:1 refused: switched off"
    assert len(due) == 1


def test_a_quiet_minute_has_no_summary(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    due: list[Callable[[], None]] = []
    RefusalLog(lambda _seconds, call: due.append(call)).refused("a:1", "forbidden", "no")
    due.pop()()
    assert len(caplog.records) == 1
