"""Hostile cases against the graph of a test: see `benchmarks.hostile`."""

from __future__ import annotations

import pytest

from auricle_testing.server import Server
from benchmarks.hostile import attacker
from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attackers import inside, sockets, wire
from benchmarks.hostile.attackers.wire import Target
from benchmarks.hostile.attacks import newcomer
from benchmarks.hostile.graph import failures, target_of
from benchmarks.hostile.inputs import cases

SEED = 4


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise deadlines: the campaign measures speed under attack, and tests run on busy machines."""
    for module in (wire, newcomer):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 30.0)
    monkeypatch.setattr(sockets, "TRANSLATED_SECONDS", 90.0)
    monkeypatch.setattr(attacker, "CASE_SECONDS", 240.0)
    monkeypatch.setattr(newcomer, "RESPONSIVE_SECONDS", 10.0)
    monkeypatch.setattr(newcomer, "RECORDING_SECONDS", 60.0)


def target_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return the graph as a target, with its discovery in this process's environment."""
    found = target_of(server, {})
    for name, value in inside.environment(found).items():
        monkeypatch.setenv(name, value)
    return found


async def try_cases(server: Server, target: Target, area: str, count: int) -> None:
    """Send some cases of an area; each must be executed, without anything unexpected."""
    before = len(server.log)
    made = cases(area, SEED, count, AREAS[area].strategy)
    found = await attacker.attacked(target, made, AREAS[area].concurrent, seconds=240)
    assert [(case.id, outcome) for case, outcome in found.remarkable] == []
    assert found.cases == count, found.verdicts
    assert failures(server.log[before:]) == []
