"""Owners share slots in turns, and none takes all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.core.errors import Overloaded
from auricle.core.fair_slots import FairSlots

pytestmark = pytest.mark.unit


class Calls:
    """Requests for slots, in the order in which they were granted."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self.granted: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str) -> None:
        """A request of the owner whose name is the first letter."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._hold(name))
        await settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settled()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await settled()

    async def _hold(self, name: str) -> None:
        async with self._slots.slot(name[0]):
            self.granted.append(name)
            await self._ends[name].wait()

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def names(owner: str, count: int) -> Iterator[str]:
    return (f"{owner}{number}" for number in range(count))


async def test_owners_take_turns_however_many_calls_each_has() -> None:
    calls = Calls(FairSlots(1, per_owner=1, max_waiting=10))
    for name in [*names("a", 4), *names("b", 2), *names("c", 1)]:
        await calls.ask(name)
    for _ in range(7):
        await calls.end(calls.granted[-1])
    assert calls.granted == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]


async def test_an_owner_leaves_slots_for_others() -> None:
    calls = Calls(FairSlots(3, per_owner=2, max_waiting=10))
    for name in names("a", 3):
        await calls.ask(name)
    assert calls.granted == ["a0", "a1"]
    await calls.ask("b0")
    assert calls.granted == ["a0", "a1", "b0"]
    await calls.end("b0")
    assert "a2" not in calls.granted
    await calls.end("a0")
    assert calls.granted[-1] == "a2"
    await calls.close()


async def test_waiting_calls_of_an_owner_are_bounded() -> None:
    calls = Calls(FairSlots(1, per_owner=1, max_waiting=2))
    for name in names("a", 4):
        await calls.ask(name)
    with pytest.raises(Overloaded, match="2 requests of this client wait already"):
        await calls.tasks["a3"]
    await calls.ask("b0")
    assert not calls.tasks["b0"].done()
    await calls.close()


async def test_without_a_queue_a_free_slot_is_granted_still() -> None:
    calls = Calls(FairSlots(1, per_owner=1, max_waiting=0))
    for name in names("a", 2):
        await calls.ask(name)
    assert calls.granted == ["a0"]
    with pytest.raises(Overloaded):
        await calls.tasks["a1"]
    await calls.close()


async def test_a_call_that_was_refused_leaves_nothing_behind() -> None:
    slots = FairSlots(1, per_owner=1, max_waiting=1)
    calls = Calls(slots)
    for name in names("a", 3):
        await calls.ask(name)
    await calls.cancel("a1")
    await calls.ask("a4")
    await calls.end("a0")
    assert calls.granted == ["a0", "a4"]
    await calls.close()


async def test_a_slot_granted_to_a_call_that_is_cancelled_goes_to_the_next() -> None:
    calls = Calls(FairSlots(1, per_owner=1, max_waiting=5))
    for name in ("a0", "b0", "c0"):
        await calls.ask(name)
    calls.tasks["a0"].cancel()
    await asyncio.sleep(0)  # a0 has released its slot; b0 has not run yet
    calls.tasks["b0"].cancel()
    await settled()
    assert calls.granted == ["a0", "c0"]
    await calls.close()


@given(st.lists(st.tuples(st.sampled_from(["ask", "end", "cancel"]), st.sampled_from("abc"))))
async def test_no_slot_is_lost_and_none_is_granted_twice(steps: list[tuple[str, str]]) -> None:
    slots = FairSlots(3, per_owner=2, max_waiting=3)
    calls = Calls(slots)
    for number, (step, owner) in enumerate(steps):
        if step == "ask":
            await calls.ask(f"{owner}{number}")
            continue
        own = [n for n, task in calls.tasks.items() if n[0] == owner and not task.done()]
        if own and step == "end":
            await calls.end(own[0])
        elif own:
            await calls.cancel(own[-1])
        held = [n for n in calls.granted if not calls.tasks[n].done()]
        assert len(held) <= 3
        assert all(sum(n[0] == o for n in held) <= 2 for o in "abc")
    await calls.close()
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        for owner in "abc":
            await stack.enter_async_context(slots.slot(owner))
