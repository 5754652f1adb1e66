"""One line for a session that ends; refused clients cannot flood the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from auricle.core.errors import Overloaded
from auricle.frontend.transport.session_log import log_ended, log_refused
from auricle.process.logs import Repeats

pytestmark = pytest.mark.unit


def test_a_session_that_ends_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_ended("session", "sess_1", "stream", 12.3456, "client_gone")
    (record,) = caplog.records
    assert record.message == "session sess_1 ended: client_gone, stream, 12.3 s of audio"
    assert record.__dict__["audio_seconds"] == 12.346
    assert record.__dict__["outcome"] == "client_gone"


def test_refusals_beyond_the_first_ten_are_summed_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    due: list[Callable[[], None]] = []
    caplog.set_level(logging.INFO)
    with caplog.filtering(Repeats(lambda _seconds, call: due.append(call))):
        for number in range(1000):
            log_refused(f"10.0.0.1:{number}", Overloaded("not today"))
        assert [record.getMessage() for record in caplog.records] == [
            f"client 10.0.0.1:{number} refused: not today" for number in range(10)
        ]
        assert caplog.records[0].__dict__["outcome"] == "overloaded"
        due.pop()()
        assert caplog.records[-1].getMessage() == (
            "990 more lines within 60 s of: client %s refused: %s"
        )
        log_refused("10.0.0.2:1", Overloaded("switched off"))
        assert caplog.records[-1].getMessage() == "client 10.0.0.2:1 refused: switched off"
