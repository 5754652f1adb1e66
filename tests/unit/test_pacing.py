"""What load does to cadence and to newcomers."""

from contextlib import ExitStack, suppress

import pytest

from auricle.errors import Overloaded
from auricle.processor.load import ChunkLoad
from auricle.processor.pacing import Admission, AdmissionLimits, Pacing

pytestmark = pytest.mark.unit
TARGET = 0.3


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Loaded:
    """A load whose chunks take what the test says."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.load = ChunkLoad(TARGET, self.clock)

    def take(self, seconds: float, count: int = 20) -> None:
        """The last seconds' chunks all took so long."""
        self.clock.now += 15.0
        for _ in range(count):
            with self.load.chunk(self.clock.now - seconds):
                pass

    def admission(self, most: int = 100, assured: int = 2) -> Admission:
        return Admission(AdmissionLimits(most, assured), self.load, self.clock)


def test_the_load_is_the_95th_percentile_of_the_last_seconds() -> None:
    loaded = Loaded()
    loaded.take(9.0)
    loaded.take(0.1, count=19)
    with loaded.load.chunk(loaded.clock.now - 0.2):
        pass
    assert 0.1 <= loaded.load.seconds < 0.12
    loaded.clock.now += 15.0
    assert loaded.load.seconds == 0.0


def test_what_a_chunk_takes_by_itself_is_no_load() -> None:
    loaded = Loaded()
    loaded.take(0.14)
    assert loaded.load.level == 0
    loaded.take(0.22)
    assert loaded.load.level == pytest.approx(0.5, abs=0.01)
    loaded.take(0.3)
    assert loaded.load.level == pytest.approx(1)


def test_a_slow_start_is_not_taken_for_what_a_chunk_takes() -> None:
    loaded = Loaded()
    loaded.take(1.0)
    assert loaded.load.level > 3


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


def test_cadence_stretches_with_load_and_comes_back() -> None:
    loaded = Loaded()
    pacing = Pacing(loaded.load)
    strides = []
    for seconds in (0.1, 0.3, 0.4, 0.6, 1.0, 0.1):
        loaded.take(seconds)
        strides.append(pacing.stride)
    assert strides == [1, 1, 2, 3, 4, 1]


def test_a_refusal_stretches_it_most_until_the_next_answer() -> None:
    pacing = Pacing(Loaded().load)
    pacing.refused()
    assert pacing.stride == 4
    pacing.decoded()
    assert pacing.stride == 1


def test_newcomers_are_slowed_before_they_are_refused_and_others_slowed_last() -> None:
    loaded = Loaded()
    admission, pacing = loaded.admission(), Pacing(loaded.load)
    seen = []
    for seconds in (0.1, 0.22, 0.25, 0.4):
        loaded.take(seconds)
        try:
            admission.admit()
            seen.append((admission.stretch, pacing.stride))
        except Overloaded:
            seen.append((0, pacing.stride))
    assert seen == [(1, 1), (2, 1), (0, 1), (0, 2)]


def test_a_refusal_says_why_and_when_to_come_again() -> None:
    loaded = Loaded()
    loaded.take(0.29)
    with pytest.raises(Overloaded, match="95% of chunks take up to 290 ms") as refused:
        loaded.admission().admit()
    assert refused.value.retry_after_seconds > 0


def test_the_more_are_refused_the_later_they_are_to_come_again() -> None:
    """Handshakes of those who wait cost those who are served."""
    loaded = Loaded()
    loaded.take(0.29)
    admission = loaded.admission()
    waits = []
    for _ in range(100):
        with pytest.raises(Overloaded) as refused:
            admission.admit()
        waits.append(refused.value.retry_after_seconds)
    assert waits[0] < waits[20] < waits[-1] == 30.0
    loaded.take(0.29)
    with pytest.raises(Overloaded) as refused:
        admission.admit()
    assert refused.value.retry_after_seconds == waits[0]


def crowd(admission: Admission, stack: ExitStack, size: int = 30) -> int:
    """So many come at once; returns how many are let in, each of which begins."""
    let_in = 0
    for _ in range(size):
        with suppress(Overloaded):
            admission.admit()
            stack.enter_context(admission.live())
            let_in += 1
    return let_in


def test_beyond_the_assured_sessions_they_are_let_in_by_and_by() -> None:
    """A crowd must not get in before the first of it are felt."""
    loaded = Loaded()
    admission = loaded.admission(assured=8)
    with ExitStack() as stack:
        assert crowd(admission, stack) == 8
        loaded.take(0.01)
        assert crowd(admission, stack) == 2  # a quarter more
        loaded.take(0.15)
        assert crowd(admission, stack) == 1  # near the limit, a tenth more


def test_who_was_let_in_counts_before_it_has_begun() -> None:
    loaded = Loaded()
    admission = loaded.admission(assured=3)
    for _ in range(3):
        admission.admit()
    with pytest.raises(Overloaded, match="of 3 sessions only 0 are felt yet"):
        admission.admit()
    loaded.clock.now += 3.0  # they do not come
    admission.admit()


def test_who_leaves_may_be_followed_at_once() -> None:
    loaded = Loaded()
    admission = loaded.admission(assured=2)
    sessions = [admission.live() for _ in range(10)]
    for session in sessions:
        session.__enter__()
    loaded.take(0.01)
    assert loaded.load.level == 0
    loaded.take(0.15)
    for session in sessions:
        session.__exit__(None, None, None)
    with ExitStack() as stack:
        assert crowd(admission, stack) == 11


def test_there_is_an_end_to_sessions_whatever_they_cost() -> None:
    admission = Loaded().admission(most=3, assured=9)
    with pytest.raises(Overloaded, match="all 3 sessions are in use"):
        admission.check_room(3)
    with ExitStack() as stack:
        assert crowd(admission, stack) == 3
