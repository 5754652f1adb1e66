"""Finds the callback that blocked an event loop longest, for asyncio's loop with Python handles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Longest:
    """The longest callback so far: its amount in the units of the measure, and its name."""

    amount: float = 0.0
    step: str = ""


@contextmanager
def watching(measure: Callable[[], float]) -> Iterator[Longest]:
    """Measure every callback of every asyncio loop while the block runs."""
    longest = Longest()
    run: Callable[[asyncio.Handle], None] = asyncio.Handle._run

    def watched(handle: asyncio.Handle) -> None:
        before = measure()
        run(handle)
        amount = measure() - before
        if amount > longest.amount:
            longest.amount, longest.step = amount, _described(handle)

    asyncio.Handle._run = watched  # type: ignore[method-assign,assignment]
    try:
        yield longest
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign,assignment]


def _described(handle: asyncio.Handle) -> str:
    """Name a handle's callback; for a task, name its coroutines and their current lines."""
    callback: Any = getattr(handle, "_callback", None)
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return str(getattr(callback, "__qualname__", callback))
    names: list[str] = []
    coroutine: Any = owner.get_coro()
    while coroutine is not None and hasattr(coroutine, "__qualname__"):
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        line = f":{frame.f_lineno}" if frame is not None else ""
        names.append(coroutine.__qualname__ + line)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return " > ".join(names)
