"""Admission of further live sessions."""

import uuid
from contextlib import ExitStack, suppress

import pytest

from auricle.core.errors import AuricleError, Overloaded
from auricle.load.chunk_load import ChunkLoad, Tail
from auricle.load.fairness import SILENT_SECONDS
from auricle.processor.admission import KEPT_SECONDS, AdaptiveLimit, Admission
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
TARGET = 0.3


class Carries(AdaptiveLimit):
    """A machine with a fixed capacity of sessions."""

    def __init__(self, sessions: int) -> None:
        super().__init__(TARGET)
        self.sessions = sessions

    @property
    def admitted(self) -> int:
        return self.sessions

    def observe(self, sessions: float, tail: Tail, seconds: float) -> None:
        self.observed = sessions


class Door:
    """An admission with a clock of its own, and the sessions that have begun."""

    def __init__(self, limit: AdaptiveLimit | None, most: int = 100) -> None:
        self.clock = Clock()
        self.load = ChunkLoad(TARGET, self.clock)
        self.admission = Admission(most, self.load, limit, self.clock)
        self.sessions = ExitStack()
        self.talking = True
        self.ended: list[tuple[str, AuricleError]] = []  # for the sake of others

    def begin(
        self, client: str = "", *, speaking: bool = True, priority: int = 0, others: bool = False
    ) -> ExitStack:
        """One client is admitted and begins; closing the result ends it. Raises Overloaded."""
        name = uuid.uuid4().hex
        self.admission.admit(name, client, priority=priority, others=others)
        session = self.sessions.enter_context(ExitStack())
        session.enter_context(
            self.admission.live(
                name,
                lambda: speaking and self.talking,
                lambda error: self.ended.append((client, error)),
            )
        )
        return session

    def crowd(self, size: int, client: str = "") -> int:
        """This number of clients arrives at once; returns how many were admitted and have begun."""
        let_in = 0
        for _ in range(size):
            with suppress(Overloaded):
                self.begin(client)
                let_in += 1
        return let_in

    def pass_seconds(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.now += 1.0
            self.admission.observe()

    def speak(self, late: float, seconds: float = 5.0) -> None:
        """Report chunks with this lateness, for some time."""
        for _ in range(int(seconds)):
            self.clock.now += 1.0
            for _ in range(20):
                with self.load.chunk(self.clock.now - late):
                    pass
            self.admission.observe()


def retry_after(door: Door, client: str) -> float:
    with pytest.raises(Overloaded) as refused:
        door.admission.admit(uuid.uuid4().hex, client)
    return refused.value.retry_after_seconds


def test_a_server_without_load_lets_clients_in_at_once() -> None:
    assert Door(AdaptiveLimit(TARGET)).crowd(6) == 6


def test_as_many_are_let_in_as_the_machine_carries_and_one_for_one_from_then_on() -> None:
    door = Door(Carries(5))
    assert door.crowd(30) == 5
    door.sessions.close()
    assert door.crowd(30) == 5


def test_a_refusal_says_why_and_when_to_come_again() -> None:
    door = Door(Carries(1))
    door.begin()
    with pytest.raises(Overloaded, match="carries 1 live sessions at present") as refused:
        door.begin()
    assert refused.value.retry_after_seconds > 0


def test_with_a_fixed_limit_lateness_keeps_nobody_out() -> None:
    door = Door(None, most=20)
    assert door.crowd(10) == 10
    door.speak(late=9.0)
    assert door.crowd(30) == 10


def test_while_text_is_late_nobody_else_is_let_in() -> None:
    door = Door(AdaptiveLimit(TARGET))
    door.crowd(4)
    door.speak(late=0.1)
    assert door.crowd(1) == 1
    door.speak(late=2 * TARGET)
    assert door.crowd(1) == 0
    door.speak(late=0.1, seconds=40)
    assert door.crowd(1) == 1


def test_nobody_is_refused_for_the_sake_of_sessions_that_have_ended() -> None:
    """For example after a worker died that had the only sessions."""
    door = Door(AdaptiveLimit(TARGET))
    door.crowd(4)
    door.speak(late=2 * TARGET)
    assert door.crowd(1) == 0
    door.sessions.close()
    assert door.crowd(1) == 1


def test_lateness_is_forgotten_while_nobody_speaks() -> None:
    door = Door(AdaptiveLimit(TARGET))
    door.crowd(4)
    door.speak(late=2 * TARGET)
    door.talking = False
    assert door.crowd(1) == 0
    door.pass_seconds(11)
    assert door.crowd(1) == 1


def test_chunks_that_nobody_answers_are_not_forgotten() -> None:
    door = Door(AdaptiveLimit(TARGET))
    door.crowd(5)
    with ExitStack() as waiting:
        for _ in range(5):
            waiting.enter_context(door.load.chunk(door.clock.now))
        door.pass_seconds(20)
        assert door.crowd(1) == 0


def test_a_session_that_says_nothing_lends_its_place_and_teaches_nothing() -> None:
    carries = Carries(5)
    door = Door(carries)
    for _ in range(5):
        door.begin(speaking=False)
    assert door.crowd(1) == 0  # they may begin to speak
    door.pass_seconds(11)
    assert (door.admission.active, carries.observed) == (0, 0)
    assert door.crowd(9) == 5


def test_a_session_that_resumes_is_kept_out_by_a_lack_of_room_only() -> None:
    door = Door(Carries(1))
    door.begin()
    with pytest.raises(Overloaded, match="sessions are in use"):
        for _ in range(1_000):
            door.admission.admit(uuid.uuid4().hex, resumes=True)


def test_there_is_an_end_to_sessions_whatever_they_cost() -> None:
    door = Door(Carries(99), most=3)
    with pytest.raises(Overloaded, match="all 3 sessions are in use"):
        door.admission.check_room(3)
    assert door.crowd(30) == 3


def test_who_was_let_in_counts_before_it_has_begun() -> None:
    door = Door(Carries(3))
    for _ in range(3):
        door.admission.admit(uuid.uuid4().hex)
    assert door.crowd(1) == 0
    door.clock.now += 3.0  # they do not return
    assert door.crowd(1) == 1


def test_who_was_let_in_and_leaves_at_once_counts_no_longer() -> None:
    """Clients that connect and close must not exclude others."""
    admission = Door(Carries(3)).admission
    for name in ("a", "b", "c"):
        admission.admit(name)
    admission.withdraw("b")
    admission.withdraw("b")
    admission.withdraw("unheard of")
    admission.admit("d")
    with pytest.raises(Overloaded):
        admission.admit("e")


def test_a_session_that_begins_uses_up_its_own_admission() -> None:
    admission = Door(Carries(3)).admission
    admission.admit("a")
    admission.admit("b")
    with admission.live("b"):
        admission.withdraw("a")
        admission.withdraw("b")  # it has begun, so it counts until it ends
        admission.admit("c")
        admission.admit("d")
        with pytest.raises(Overloaded):
            admission.admit("e")


def test_the_more_are_refused_the_later_they_are_to_come_again() -> None:
    """Handshakes of waiting clients slow down the sessions being served."""
    door = Door(Carries(1))
    door.begin()
    waits = [retry_after(door, "") for _ in range(100)]
    assert waits[0] < waits[20] < waits[-1] == 30.0
    door.clock.now += 15.0
    assert retry_after(door, "") == waits[0]


def test_one_client_that_connects_again_and_again_keeps_nobody_out() -> None:
    """A dozen handshakes without a session do not count as a dozen sessions for another client."""
    door = Door(Carries(8))
    let_in = 0
    for _ in range(12):
        with suppress(Overloaded):
            door.admission.admit(uuid.uuid4().hex, "hammer")
            let_in += 1
    assert let_in == 8
    door.admission.admit(uuid.uuid4().hex, "witness")


def test_one_client_that_is_refused_again_and_again_makes_others_wait_hardly_longer() -> None:
    door = Door(Carries(1))
    door.begin()
    alone = retry_after(door, "first")
    hammer = [retry_after(door, "hammer") for _ in range(1_000)]
    assert hammer[-1] == 30.0
    assert retry_after(door, "witness") <= alone + 2.0
    assert door.admission.waiting <= 66  # the planner does not see a thousand clients either


def test_many_clients_that_are_refused_once_are_a_crowd() -> None:
    door = Door(Carries(1))
    door.begin()
    waits = [retry_after(door, f"client {number}") for number in range(100)]
    assert waits[-1] == 30.0
    assert door.admission.waiting == 100
    door.clock.now += 31.0
    assert door.admission.waiting == 0


def test_the_next_place_is_not_the_floods() -> None:
    """A client with fewer sessions is admitted at its retry time, before one that floods."""
    door = Door(Carries(10))
    flood = [door.begin("flood") for _ in range(10)]
    for _ in range(100):
        retry_after(door, "flood")
    assert retry_after(door, "modest") == 2.0
    flood[0].close()
    assert door.crowd(30, "flood") == 0
    assert door.crowd(1, "modest") == 1
    flood[1].close()
    assert door.crowd(1, "flood") == 1


def test_a_place_is_kept_for_a_moment_only() -> None:
    door = Door(Carries(10))
    flood = [door.begin("flood") for _ in range(10)]
    retry_after(door, "modest")
    flood[0].close()
    door.clock.now += KEPT_SECONDS + 0.1
    assert door.crowd(1, "flood") == 1


def test_a_crowd_of_clients_has_a_few_places_kept_and_the_rest_wait_as_ever() -> None:
    door = Door(Carries(20))
    for _ in range(20):
        door.begin("flood")
    waits = [retry_after(door, f"client {number}") for number in range(100)]
    assert waits[:8] == [2.0] * 8
    assert waits[-1] == 30.0


def test_equals_come_in_the_order_in_which_they_ask() -> None:
    door = Door(Carries(10))
    sessions = [door.begin(f"client {number}") for number in range(10)]
    retry_after(door, "early")
    sessions[0].close()
    assert door.crowd(1, "late") == 1


def test_a_higher_priority_comes_first() -> None:
    door = Door(Carries(2))
    sessions = [door.begin("normal") for _ in range(2)]
    with pytest.raises(Overloaded):
        door.begin("high", priority=1)
    sessions[0].close()
    assert door.crowd(1, "normal") == 0
    door.begin("high", priority=1)


@pytest.mark.parametrize("limit", [None, Carries(99)])
def test_a_silent_session_is_ended_for_a_client_with_fewer(limit: AdaptiveLimit | None) -> None:
    door = Door(limit, most=4)
    for _ in range(3):
        door.begin("idle", speaking=False)
    door.begin("speaker")
    door.pass_seconds(SILENT_SECONDS - 1)
    with pytest.raises(Overloaded, match="all 4 sessions are in use"):
        door.begin("other")
    assert not door.ended
    door.pass_seconds(1)
    with pytest.raises(Overloaded):
        door.begin("idle")
    assert door.crowd(9, "other") == 2  # then it has more
    assert [(client, error.code) for client, error in door.ended] == [("idle", "overloaded")] * 2
    assert door.crowd(9, "third") == 1
    assert [client for client, _ in door.ended] == ["idle"] * 3
    assert door.crowd(9, "fourth") == 0  # only those are left who speak or have just begun


def test_a_session_that_was_ended_for_another_counts_no_longer_and_ends_once() -> None:
    door = Door(None, most=2)
    first = door.begin("idle", speaking=False)
    door.begin("idle", speaking=False)
    door.pass_seconds(SILENT_SECONDS)
    door.begin("other")
    first.close()
    door.sessions.close()
    assert door.crowd(5, "other") == 2


def test_a_tenant_has_its_share_of_the_sessions_or_the_number_of_its_key() -> None:
    door = Door(None, most=16)
    for _ in range(14):
        door.begin("busy", others=True)
    with pytest.raises(Overloaded, match="14 of the 16 sessions are this client's"):
        door.begin("busy", others=True)
    door.admission.admit("another", "other", others=True)
    door.admission.admit("own number", "busy", others=True, bounded=True)


def test_the_first_session_of_a_tenant_is_admitted_beyond_what_another_one_fills() -> None:
    door = Door(Carries(16))
    for _ in range(16):
        door.begin("busy", others=True)
    assert retry_after(door, "address") == 2.0  # no key
    door.begin("first", others=True)
    with pytest.raises(Overloaded):
        door.begin("first", others=True)
    with pytest.raises(Overloaded):
        door.begin("low", priority=-1, others=True)
    door.begin("second", others=True)
    with pytest.raises(Overloaded):
        door.begin("third", others=True)


def test_the_first_session_of_a_tenant_is_admitted_despite_sessions_that_have_not_spoken() -> None:
    door = Door(Carries(16))
    for _ in range(8):
        door.begin("idle", speaking=False, others=True)
    for _ in range(8):
        door.begin("busy", others=True)
    with pytest.raises(Overloaded):
        door.begin("first", others=True)
    door.pass_seconds(1.0)
    door.begin("first", others=True)
    with pytest.raises(Overloaded):
        door.begin("first", others=True)
    door.begin("second", others=True)
    with pytest.raises(Overloaded):  # an eighth more is the most
        door.begin("third", others=True)


def test_nobody_is_owed_a_place_while_text_is_late_or_no_tenant_has_more_than_its_share() -> None:
    carries = Carries(16)
    door = Door(carries)
    for number in range(16):
        door.begin(f"tenant {number}", others=True)
    with pytest.raises(Overloaded):
        door.begin("another", others=True)
    door.sessions.close()
    for _ in range(16):
        door.begin("busy", others=True)
    carries.sessions = 0
    with pytest.raises(Overloaded):
        door.begin("another", others=True)
