"""The place of a live session in tests whose fake client holds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class HeldPlace:
    """A place that no other client wants."""

    fairness_key = "10.0.0.1"

    def __init__(self) -> None:
        self.slots: list[Any] = []

    def belongs_to(self, call: Any) -> None:
        """Belong to a call, without an effect."""

    def ping(self, answered: Callable[[], None]) -> None:
        """The client is connected."""
        answered()

    def spoke(self) -> None:
        """There is speech, which protects nothing here."""
