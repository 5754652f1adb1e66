"""Prefixes of prompts that stay in the KV cache of transformers' engine, and their tenants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.workers.pd.transformers.kv_slots import KvSlots, Prefix

pytestmark = pytest.mark.unit


def prefix(keys: str, *, head: int = 1, tenant: str = "t") -> Prefix:
    """Windows named by one letter each, with ten tokens each."""
    return Prefix(tenant, (head,), tuple(keys), (10,) * len(keys))


def decoded(slots: KvSlots, wanted: Prefix, keep: int) -> Prefix:
    """Take a slot and give it back; returns its prefix."""
    slot, held = slots.take(wanted)
    slots.give_back(slot, wanted.first(keep))
    return held


def test_the_next_decode_of_a_segment_finds_its_finished_windows() -> None:
    slots = KvSlots(2)
    assert decoded(slots, prefix("abc"), keep=2).tokens == 0
    assert decoded(slots, prefix("abd"), keep=3) == prefix("ab")
    assert prefix("ab").tokens == 21
    assert decoded(slots, prefix("abde"), keep=0) == prefix("abd")
    assert decoded(slots, prefix("abde"), keep=0).tokens == 0


@pytest.mark.parametrize(
    "other", [prefix("ab", head=2), prefix("ab", tenant="other"), prefix("xb"), prefix("a")]
)
def test_what_another_prompt_began_with_is_not_taken_for_this_ones(other: Prefix) -> None:
    slots = KvSlots(2)
    decoded(slots, prefix("ab"), keep=2)
    assert decoded(slots, other, keep=0).tokens == 0
    assert decoded(slots, prefix("ab"), keep=2) == prefix("ab")


def test_the_longest_beginning_is_taken() -> None:
    slots = KvSlots(3)
    one, _ = slots.take(prefix("ab"))
    two, _ = slots.take(prefix("abc"))
    slots.give_back(one, prefix("ab"))
    slots.give_back(two, prefix("abc"))
    assert slots.take(prefix("abcd")) == (two, prefix("abc"))
    assert slots.take(prefix("abcd")) == (one, prefix("ab"))


def test_who_decoded_longest_ago_gives_way() -> None:
    slots = KvSlots(2)
    decoded(slots, prefix("a"), keep=1)
    decoded(slots, prefix("b"), keep=1)
    decoded(slots, prefix("a"), keep=1)
    decoded(slots, prefix("c"), keep=1)
    assert decoded(slots, prefix("a"), keep=1) == prefix("a")
    assert decoded(slots, prefix("b"), keep=1).tokens == 0


def test_a_slot_without_windows_is_given_away_before_any_other() -> None:
    slots = KvSlots(2)
    decoded(slots, prefix("a"), keep=1)
    for keys in "xyz":  # finals, which keep nothing
        decoded(slots, prefix(keys), keep=0)
    assert decoded(slots, prefix("a"), keep=1) == prefix("a")


def test_slots_in_use_are_nobody_elses() -> None:
    slots = KvSlots(2)
    first, _ = slots.take(prefix("a"))
    second, held = slots.take(prefix("a"))
    assert first != second
    assert not held.tokens
    assert slots.in_use == 2
    with pytest.raises(IndexError):
        slots.take(prefix("b"))
    slots.give_back(first, None)
    assert slots.in_use == 1


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.integers(0, 3)), max_size=30))
def test_a_slot_holds_what_was_last_kept_in_it_and_never_more(
    history: list[tuple[str, int]],
) -> None:
    slots = KvSlots(2)
    content: dict[int, Prefix] = {}  # the contents of a KV cache
    for keys, keep in history:
        slot, held = slots.take(prefix(keys))
        if held.tokens:
            assert held == content[slot]
            assert held.begins(prefix(keys))
        content[slot] = prefix(keys).first(keep)
        slots.give_back(slot, content[slot])
        assert slots.in_use == 0
