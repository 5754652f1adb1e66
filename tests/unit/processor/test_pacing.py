"""The measurement of chunks, and the effect of rejections on a session's cadence."""

import math

import pytest

from auricle.core.errors import Overloaded
from auricle.load.chunk_load import TAIL_SECONDS, ChunkLoad, Tail
from auricle.processor.driver import Pacing
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
TARGET = 0.3


class Loaded:
    """A load whose chunks take a given time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.load = ChunkLoad(TARGET, self.clock)

    def take(self, seconds: float, count: int = 20) -> None:
        """Set the duration of all chunks of the last seconds."""
        self.clock.now += 15.0
        for _ in range(count):
            with self.load.chunk(self.clock.now - seconds):
                pass


def test_the_load_is_the_95th_percentile_of_the_last_seconds() -> None:
    loaded = Loaded()
    loaded.take(9.0)
    loaded.take(0.1, count=19)
    with loaded.load.chunk(loaded.clock.now - 0.2):
        pass
    assert 0.1 <= loaded.load.seconds < 0.12
    loaded.clock.now += 15.0
    assert loaded.load.seconds == 0.0


def test_chunks_that_nobody_answers_are_load_too() -> None:
    loaded = Loaded()
    waiting = [loaded.load.chunk(loaded.clock.now) for _ in range(10)]
    for chunk in waiting:
        chunk.__enter__()
    loaded.clock.now += 3.0
    assert loaded.load.seconds == pytest.approx(3.0)
    for chunk in waiting:
        chunk.__exit__(None, None, None)


def test_a_chunk_that_failed_does_not_count() -> None:
    loaded = Loaded()
    for _ in range(20):
        with pytest.raises(Overloaded), loaded.load.chunk(loaded.clock.now - 5):
            raise Overloaded("full")
    assert loaded.load.seconds == 0.0


def test_a_chunk_that_was_done_again_does_not_count() -> None:
    loaded = Loaded()
    for _ in range(20):
        with loaded.load.chunk(loaded.clock.now - 5) as chunk:
            chunk.counts = False
    assert loaded.load.seconds == 0.0


def test_a_refusal_stretches_it_most_until_the_next_answer() -> None:
    pacing = Pacing()
    pacing.refused()
    assert pacing.stride == 4
    pacing.decoded()
    assert pacing.stride == 1


def test_the_tail_is_that_of_the_last_seconds_and_one_straggler_is_none() -> None:
    loaded = Loaded()
    assert loaded.load.tail == Tail()
    loaded.take(0.1, count=20)
    with loaded.load.chunk(loaded.clock.now - 9.0):
        pass
    assert loaded.load.tail.p95 == loaded.load.tail.p997 == pytest.approx(0.1)
    loaded.clock.now += TAIL_SECONDS + 1
    assert loaded.load.tail == Tail()


@pytest.mark.parametrize("scale", [0.02, 0.05])
def test_a_rare_lateness_is_told_from_chunks_that_are_not_rare(scale: float) -> None:
    """From 200 chunks with exponential lateness, p997 extrapolates to three in a thousand."""
    loaded, count = Loaded(), 200
    for rank in range(count):
        with loaded.load.chunk(loaded.clock.now - 0.05 + scale * math.log((rank + 0.5) / count)):
            pass
    tail = loaded.load.tail
    assert tail.p95 == pytest.approx(0.05 + scale * math.log(20), rel=0.05)
    assert tail.p997 == pytest.approx(0.05 + scale * math.log(1 / 0.003), rel=0.05)


def test_text_that_skipped_a_grid_point_is_late_by_that_grid_point() -> None:
    loaded = Loaded()
    for _ in range(20):
        with loaded.load.chunk(loaded.clock.now - 0.1, loaded.clock.now - 0.74):
            pass
    assert loaded.load.seconds == pytest.approx(0.1)
    assert loaded.load.tail.p95 == pytest.approx(0.74)


def test_chunks_in_progress_are_part_of_the_tail_once_they_are_late() -> None:
    loaded = Loaded()
    waiting = [loaded.load.chunk(loaded.clock.now) for _ in range(10)]
    for chunk in waiting:
        chunk.__enter__()
    assert loaded.load.tail == Tail()
    loaded.clock.now += 3.0
    assert loaded.load.tail.p95 == pytest.approx(3.0)
    for chunk in waiting:
        chunk.__exit__(None, None, None)
