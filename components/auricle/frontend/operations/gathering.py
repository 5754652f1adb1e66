"""Asks all processes for what operators see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from auricle.errors import AuricleError
from auricle.frontend.diagnosis.deployment import Asked
from auricle.frontend.operations.merging import Gathered
from auricle.messages.diagnosis import Diagnosis
from auricle.messages.planning import AskDecisions, Decisions
from auricle.messages.views import AskView, View
from auricle.runtime import Runtime

_ANSWER_SECONDS = 2.0
_DIAGNOSIS_SECONDS = 6.0


@dataclass
class Gatherer:
    """Asks processors and planners at every call, and all processes for a diagnosis each 6 s.

    Nothing is asked, and nothing connected, before the first call. One call at a time.
    """

    views: Asked
    decisions: Asked
    diagnose: Callable[[], Awaitable[Diagnosis]]
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    _diagnosis: tuple[float, Diagnosis] | None = field(default=None, init=False)

    @classmethod
    def of(cls, runtime: Runtime, diagnose: Callable[[], Awaitable[Diagnosis]]) -> Gatherer:
        """Return the gatherer of this process; `diagnose` makes a diagnosis without probes."""
        return cls(
            runtime.client("processor", "view", local=True),
            runtime.client("planner", "decisions"),
            diagnose,
        )

    async def gather(self, steps_of: tuple[str, ...]) -> Gathered:
        """Return what was answered within 2 s of each question; see `AskView` for `steps_of`.

        The first call takes some seconds longer: it connects.
        """
        views, decisions, diagnosed = await asyncio.gather(
            _answers(self.views, AskView(steps_of), View),
            _answers(self.decisions, AskDecisions(), Decisions),
            self._diagnosed(),
        )
        at, diagnosis = diagnosed
        return Gathered(
            at=self.wall_clock(),
            diagnosis=diagnosis,
            diagnosis_age=self.clock() - at,
            views=views,
            decisions=decisions,
        )

    async def _diagnosed(self) -> tuple[float, Diagnosis]:
        known = self._diagnosis
        if known is None or self.clock() - known[0] >= _DIAGNOSIS_SECONDS:
            known = self._diagnosis = (self.clock(), await self.diagnose())
        return known


async def _answers(endpoint: Asked, question: msgspec.Struct, kind: type) -> dict[str, Any]:
    """Return the answers of all instances that give one, by id in hex."""
    try:
        instances = sorted(await endpoint.listed())
    except AuricleError:
        return {}
    answers = await asyncio.gather(*(_answer(endpoint, question, kind, i) for i in instances))
    return {f"{i:x}": a for i, a in zip(instances, answers, strict=True) if a is not None}


async def _answer(
    endpoint: Asked, question: msgspec.Struct, kind: type, instance: int
) -> msgspec.Struct | None:
    try:
        return await endpoint.call(question, kind, instance, _ANSWER_SECONDS)
    except AuricleError:
        return None  # the diagnosis says what is wrong with it
