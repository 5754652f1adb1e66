"""A line that is logged repeatedly is counted and summarized."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from auricle.process.logs import Repeats

pytestmark = pytest.mark.unit


class Log:
    """A handler behind the filter; `period_over` runs the timer's callback."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.lines: list[str] = []
        self.handler = logging.Handler()
        self.handler.emit = lambda record: self.lines.append(record.getMessage())  # type: ignore[method-assign]
        self.repeats = Repeats(
            lambda _seconds, call: self.due.append(call), info_lines=5, warning_lines=2
        )
        self.handler.addFilter(self.repeats)

    def period_over(self) -> None:
        (call,) = self.due
        self.due.clear()
        call()


@pytest.fixture
def log() -> Iterator[Log]:
    found, root = Log(), logging.getLogger()
    root.addHandler(found.handler)
    yield found
    root.removeHandler(found.handler)


def test_the_first_lines_pass_and_the_others_are_summed_up(log: Log) -> None:
    for number in range(1000):
        logging.getLogger("some.where").warning("client %d sent garbage", number)
    assert log.lines == ["client 0 sent garbage", "client 1 sent garbage"]
    log.period_over()
    assert log.lines[2:] == ["998 more lines within 60 s of: client %d sent garbage"]


def test_afterwards_they_pass_again(log: Log) -> None:
    for _ in range(2):
        for _ in range(3):
            logging.getLogger("some.where").error("broken")
        log.period_over()
    assert log.lines.count("broken") == 4


def test_a_quiet_minute_has_no_summary_and_no_timer(log: Log) -> None:
    logging.getLogger("some.where").warning("once")
    log.period_over()
    assert log.lines == ["once"]
    assert not log.due


def test_kinds_are_counted_apart_and_news_may_be_more(log: Log) -> None:
    logger = logging.getLogger("some.where")
    logger.setLevel(logging.INFO)
    for number in range(10):
        logger.warning("a %d", number)
        logger.warning("b %d", number)
        logger.info("c %d", number)
    assert [line[0] for line in log.lines].count("a") == 2
    assert [line[0] for line in log.lines].count("b") == 2
    assert [line[0] for line in log.lines].count("c") == 5


def test_a_message_without_a_template_cannot_fill_memory(log: Log) -> None:
    """Its values are part of the message, so each message would be counted separately."""
    for number in range(5_000):
        logging.getLogger("some.where").warning(f"client {number} sent " + "garbage" * 50)
    assert len(log.repeats._counts) <= 501
    assert len(log.lines) <= 502
    log.period_over()
    assert log.lines[-1].endswith("more lines within 60 s of: lines of other kinds")


def test_a_traceback_of_asyncios_is_known_by_its_first_line(log: Log) -> None:
    for number in range(10):
        logging.getLogger("asyncio").error(f"Fatal error: it failed.\ntransport: {number}")
    assert len(log.lines) == 2


def test_debug_lines_pass(log: Log) -> None:
    logger = logging.getLogger("some.where")
    logger.setLevel(logging.DEBUG)
    for _ in range(20):
        logger.debug("detail")
    assert len(log.lines) == 20
