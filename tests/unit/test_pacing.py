"""What load does to cadence and to newcomers."""

import uuid
from contextlib import ExitStack, suppress

import pytest

from auricle.errors import Overloaded
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.admission import Admission, AdmissionLimits
from auricle.processor.pacing import Pacing

pytestmark = pytest.mark.unit
TARGET = 0.3


def new_name() -> str:
    return uuid.uuid4().hex


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
        self.sessions = ExitStack()

    def take(self, seconds: float, count: int = 20) -> None:
        """The last seconds' chunks all took so long."""
        self.clock.now += 15.0
        for _ in range(count):
            with self.load.chunk(self.clock.now - seconds):
                pass

    def admission(self, most: int = 100, assured: int = 2, live: int = 0) -> Admission:
        """With `live` sessions, felt in full."""
        admission = Admission(AdmissionLimits(most, assured), self.load, self.clock)
        for _ in range(live):
            self.sessions.enter_context(admission.live(new_name()))
        self.clock.now += 15.0
        return admission


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
    admission, pacing = loaded.admission(live=8), Pacing(loaded.load)
    seen = []
    for seconds in (0.1, 0.22, 0.25, 0.4):
        loaded.take(seconds)
        try:
            admission.admit(new_name())
            seen.append((admission.chunk_multiple, pacing.stride))
        except Overloaded:
            seen.append((0, pacing.stride))
    assert seen == [(1, 1), (2, 1), (0, 1), (0, 2)]


def test_a_refusal_says_why_and_when_to_come_again() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.29)
    with pytest.raises(Overloaded, match="95% of chunks take up to 290 ms") as refused:
        admission.admit(new_name())
    assert refused.value.retry_after_seconds > 0


def test_a_session_that_resumes_is_kept_out_by_a_lack_of_room_only() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.29)
    with pytest.raises(Overloaded):
        admission.admit(new_name())
    with pytest.raises(Overloaded, match="sessions are in use"):
        for _ in range(1_000):
            admission.admit(new_name(), resumes=True)


def test_the_more_are_refused_the_later_they_are_to_come_again() -> None:
    """Handshakes of those who wait cost those who are served."""
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.29)
    waits = []
    for _ in range(100):
        with pytest.raises(Overloaded) as refused:
            admission.admit(new_name())
        waits.append(refused.value.retry_after_seconds)
    assert waits[0] < waits[20] < waits[-1] == 30.0
    loaded.take(0.29)
    with pytest.raises(Overloaded) as refused:
        admission.admit(new_name())
    assert refused.value.retry_after_seconds == waits[0]


def crowd(admission: Admission, stack: ExitStack, size: int = 30) -> int:
    """So many come at once; returns how many are let in, each of which begins."""
    let_in = 0
    for _ in range(size):
        with suppress(Overloaded):
            name = new_name()
            admission.admit(name)
            stack.enter_context(admission.live(name))
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
        admission.admit(new_name())
    with pytest.raises(Overloaded, match="the load of 3 of 3 sessions is not measured yet"):
        admission.admit(new_name())
    loaded.clock.now += 3.0  # they do not come
    admission.admit(new_name())


def test_who_was_let_in_and_leaves_at_once_counts_no_longer() -> None:
    """Clients that connect and close must not keep others out."""
    admission = Loaded().admission(most=3, assured=3)
    for name in ("a", "b", "c"):
        admission.admit(name)
    admission.withdraw("b")
    admission.withdraw("b")
    admission.withdraw("unheard of")
    admission.admit("d")
    with pytest.raises(Overloaded, match="all 3 sessions are in use"):
        admission.admit("e")


def test_a_session_that_begins_uses_up_its_own_admission() -> None:
    admission = Loaded().admission(most=3, assured=3)
    admission.admit("a")
    admission.admit("b")
    with admission.live("b"):
        admission.withdraw("a")
        admission.withdraw("b")  # has begun, so it counts until it ends
        admission.admit("c")
        admission.admit("d")
        with pytest.raises(Overloaded):
            admission.admit("e")


def test_who_leaves_may_be_followed_at_once() -> None:
    loaded = Loaded()
    admission = loaded.admission(assured=2)
    sessions = [admission.live(new_name()) for _ in range(10)]
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


def admitted(admission: Admission) -> bool:
    try:
        admission.admit(new_name())
    except Overloaded:
        return False
    return True


def test_nobody_is_refused_for_the_sake_of_sessions_that_have_ended() -> None:
    """Such as after a worker was killed under the only session."""
    loaded = Loaded()
    admission = loaded.admission()
    with admission.live(new_name()):
        loaded.take(5.0)
        assert not admitted(admission)
    assert loaded.load.level > 3
    assert (admission.chunk_multiple, admitted(admission)) == (1, True)


def test_load_is_believed_as_far_as_those_who_made_it_are_there() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=5)
    with ExitStack() as leaving:
        for _ in range(5):
            leaving.enter_context(admission.live(new_name()))
        loaded.take(0.29)
        assert not admitted(admission)
    assert admitted(admission)  # half of them have left
    loaded.take(0.29)
    assert not admitted(admission)  # but the rest make as much by themselves


def test_load_is_forgotten_while_nobody_speaks() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.5)
    assert not admitted(admission)
    loaded.clock.now += 3.0  # nobody spoke since, and nobody left
    assert not admitted(admission)
    loaded.clock.now += 3.0
    assert admitted(admission)


def test_chunks_that_wait_are_not_forgotten() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.5)
    with loaded.load.chunk(loaded.clock.now):
        loaded.clock.now += 6.0
        assert not admitted(admission)


def test_one_client_that_connects_again_and_again_keeps_nobody_out() -> None:
    """A dozen handshakes, none of which begins, are not a dozen sessions for another client."""
    loaded = Loaded()
    admission = loaded.admission(assured=8)
    let_in = 0
    for _ in range(12):
        with suppress(Overloaded):
            admission.admit(new_name(), "hammer")
            let_in += 1
    assert let_in == 8
    admission.admit(new_name(), "witness")


def test_one_client_that_is_refused_again_and_again_makes_others_wait_hardly_longer() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.29)

    def retry_after(client: str) -> float:
        with pytest.raises(Overloaded) as refused:
            admission.admit(new_name(), client)
        return refused.value.retry_after_seconds

    alone = retry_after("first")
    hammer = [retry_after("hammer") for _ in range(1_000)]
    assert hammer[-1] == 30.0
    assert retry_after("witness") <= alone + 2.0
    assert admission.waiting <= 66  # nor does it look like a thousand clients to the planner


def test_many_clients_that_are_refused_once_are_a_crowd() -> None:
    loaded = Loaded()
    admission = loaded.admission(live=1)
    loaded.take(0.29)
    for number in range(100):
        with pytest.raises(Overloaded) as refused:
            admission.admit(new_name(), f"client {number}")
    assert refused.value.retry_after_seconds == 30.0
    assert admission.waiting == 100
    loaded.clock.now += 31.0
    assert admission.waiting == 0
