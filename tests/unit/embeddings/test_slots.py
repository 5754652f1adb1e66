"""The slab's bookkeeping: lookups, evictions, pins and leases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from auricle.core.errors import Overloaded
from auricle.embeddings.slots import LeaseBook, Slot, SlotTable

pytestmark = pytest.mark.unit


def put(table: SlotTable, key: str, *, partial: bool = False, pinned: bool = False) -> Slot:
    slot = table.allocate(key, 10, partial=partial)
    table.fill(slot)
    if not pinned:
        table.unpin(slot)
    return slot


def test_content_is_found_by_key_once_it_is_filled() -> None:
    table = SlotTable(2)
    slot = table.allocate("a", 5, partial=False)
    assert table.find("a") is None
    table.fill(slot)
    assert table.find("a") is slot


def test_the_least_recently_used_finished_window_goes_first() -> None:
    table = SlotTable(2)
    put(table, "a")
    put(table, "b")
    table.find("a")
    put(table, "c")
    assert table.find("b") is None
    assert table.find("a") is not None


def test_superseded_then_partial_windows_go_before_finished_ones() -> None:
    table = SlotTable(3)
    put(table, "finished")
    put(table, "partial", partial=True)
    put(table, "superseded", partial=True)
    table.supersede("superseded")
    put(table, "new 1", pinned=True)
    assert table.find("superseded") is None
    put(table, "new 2", pinned=True)
    assert table.find("partial") is None
    assert table.find("finished") is not None


def test_evicted_content_is_not_found_and_its_slot_is_free_again() -> None:
    table = SlotTable(1)
    slot = put(table, "a")
    assert table.evict(slot.index, slot.generation)
    assert table.find("a") is None
    assert table.in_use == 0
    assert put(table, "a").generation == 2


def test_an_evicted_slot_that_is_pinned_is_free_after_its_last_pin() -> None:
    table = SlotTable(1)
    slot = put(table, "a", pinned=True)
    table.pin(slot)
    assert table.evict(slot.index, slot.generation)
    table.unpin(slot)
    with pytest.raises(Overloaded):
        table.allocate("a", 1, partial=False)
    table.unpin(slot)
    assert table.in_use == 0
    put(table, "a")
    assert table.find("a") is not None


@pytest.mark.parametrize(("index", "generation"), [(0, 2), (1, 1), (-1, 1), (7, 1)])
def test_what_is_evicted_must_be_there(index: int, generation: int) -> None:
    table = SlotTable(2)
    put(table, "a")
    assert not table.evict(index, generation)
    assert table.find("a") is not None


def test_a_pinned_slot_is_never_reused() -> None:
    table = SlotTable(1)
    put(table, "a", pinned=True)
    with pytest.raises(Overloaded, match="all 1 slots"):
        table.allocate("b", 1, partial=False)


def test_a_slot_in_quarantine_gives_its_key_up_at_once_and_itself_later() -> None:
    table = SlotTable(2)
    quarantined = table.allocate("a", 1, partial=False)
    table.detach(quarantined)
    assert put(table, "a", pinned=True) is not quarantined
    with pytest.raises(Overloaded):
        table.allocate("b", 1, partial=False)
    table.abandon(quarantined)
    assert put(table, "b") is quarantined


def test_reuse_changes_the_generation() -> None:
    table = SlotTable(1)
    first = put(table, "a").generation
    assert put(table, "b").generation > first


def test_a_lease_keeps_its_slot_until_released() -> None:
    table = SlotTable(1)
    leases = LeaseBook(table, seconds=10)
    lease = leases.grant(put(table, "a"), now=0.0)
    with pytest.raises(Overloaded):
        table.allocate("b", 1, partial=False)
    assert leases.release(lease.number)
    assert not leases.release(lease.number)
    put(table, "b")


def test_a_lease_ends_at_its_deadline_and_not_before() -> None:
    table = SlotTable(1)
    leases = LeaseBook(table, seconds=10)
    leases.grant(put(table, "a"), now=0.0)
    assert leases.expire(now=9.9) == 0
    assert leases.expire(now=10.0) == 1
    put(table, "b")


class SlabMachine(RuleBasedStateMachine):
    """Random leases, releases and writes never corrupt the table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SlotTable(4)
        self.leases = LeaseBook(self.table, seconds=5)
        self.now = 0.0
        self.held: dict[int, tuple[Slot, str, int]] = {}

    @rule(key=st.sampled_from("abcdefgh"), partial=st.booleans())
    def write(self, key: str, partial: bool) -> None:
        if self.table.find(key) is not None:
            return
        try:
            put(self.table, key, partial=partial)
        except Overloaded:
            assert self.table.pinned == 4

    @rule(key=st.sampled_from("abcdefgh"))
    def lease(self, key: str) -> None:
        slot = self.table.find(key)
        if slot is not None:
            number = self.leases.grant(slot, self.now).number
            self.held[number] = (slot, key, slot.generation)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.held)))
        self.leases.release(number)
        del self.held[number]

    @rule(key=st.sampled_from("abcdefgh"))
    def supersede(self, key: str) -> None:
        self.table.supersede(key)

    @rule()
    def time_passes(self) -> None:
        self.now += 2.0
        self.leases.expire(self.now)
        open_now = set(self.leases._open)
        self.held = {n: held for n, held in self.held.items() if n in open_now}

    @invariant()
    def leased_slots_keep_their_content(self) -> None:
        for slot, key, generation in self.held.values():
            assert (slot.key, slot.generation) == (key, generation)

    @invariant()
    def every_slot_is_free_or_has_one_key(self) -> None:
        keys = [s.key for s in self.table._slots if s.key is not None]
        assert len(keys) == len(set(keys)) == self.table.in_use
        assert sorted(self.table._free) == [s.index for s in self.table._slots if s.key is None]


TestSlab = SlabMachine.TestCase


@given(st.integers(max_value=0))
def test_a_slab_needs_slots(count: int) -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        SlotTable(count)
