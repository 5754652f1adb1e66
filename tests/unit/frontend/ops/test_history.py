"""The last hour of the processors' load, which needs no question to them."""

from __future__ import annotations

import pytest

from auricle.frontend.ops.history import LoadHistory
from auricle.load.report_cache import ProcessorLoads
from auricle.load.reports import ProcessorLoad
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
HOUR = 3600.0


def load(instance: int, sessions: int, chunk_seconds: float = 0.1) -> ProcessorLoad:
    return ProcessorLoad(instance, 1.0, sessions, sessions - 1, 0.5, chunk_seconds)


def test_a_moment_sums_the_processors_and_has_the_slowest_chunk() -> None:
    loads = ProcessorLoads()
    loads.update(load(1, 3))
    loads.update(load(2, 5, 0.4))
    history = LoadHistory(loads.seen, lambda: 1_000.0)
    history.record()
    (moment,) = history.now().moments
    assert (moment.at, moment.sessions, moment.speaking) == (1_000.0, 8, 6)
    assert (moment.waiting, moment.chunk_seconds) == (1.0, 0.4)


def test_a_silent_processor_does_not_count() -> None:
    clock = Clock()
    loads = ProcessorLoads(clock)
    loads.update(load(1, 3))
    clock.now += 30.0
    loads.update(load(2, 5))
    history = LoadHistory(loads.seen)
    history.record()
    assert history.now().moments[0].sessions == 5


def test_an_hour_is_kept() -> None:
    now = 0.0
    history = LoadHistory(ProcessorLoads().seen, lambda: now)
    while now < 2 * HOUR:
        history.record()
        now += history.now().every_seconds
    moments = history.now().moments
    assert moments[0].at == HOUR and moments[-1].at == 2 * HOUR - history.now().every_seconds
    assert len(moments) * history.now().every_seconds == HOUR
