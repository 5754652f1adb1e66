"""Hostile cases against the graph of a test: see `benchmarks.hostile`."""

from __future__ import annotations

import pytest

from auricle_testing.server import Server
from benchmarks.hostile import pool
from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attack import liars_environment
from benchmarks.hostile.attackers import inside, rpc, translations, wire
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attacks import live, newcomer
from benchmarks.hostile.attacks import recordings as bombs
from benchmarks.hostile.case import TRIED, UNEXPECTED, cases
from benchmarks.hostile.graph import target_of
from benchmarks.hostile.pool import attacked
from benchmarks.hostile.watch import failures

SEED = 4


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise deadlines: the campaign measures speed under attack, and tests run on busy machines."""
    for module in (wire, inside, rpc, newcomer):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 30.0)
    monkeypatch.setattr(translations, "TRANSLATED_SECONDS", 90.0)
    monkeypatch.setattr(pool, "CASE_SECONDS", 240.0)
    monkeypatch.setattr(live, "RESPONSIVE_SECONDS", 10.0)
    monkeypatch.setattr(bombs, "RECORDING_SECONDS", 60.0)


def target_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return the graph as a target, with its discovery in this process's environment."""
    found = target_of(server, {})
    for name, value in liars_environment(found).items():
        monkeypatch.setenv(name, value)
    return found


async def try_cases(server: Server, target: Target, area: str, count: int) -> None:
    """Send some cases of an area; fails if one is not tried, or something unexpected happens."""
    before = len(server.log)
    made = cases(area, SEED, count, AREAS[area].generate)
    tally = await attacked(AREAS[area], target, made, lambda _: None, seconds=240)
    wrong = [(case.id, outcome) for case, outcome in tally.remarkable]
    assert not [one for one in wrong if one[1].verdict in UNEXPECTED]
    assert sum(tally.verdicts[verdict] for verdict in TRIED) == count, (tally.verdicts, wrong)
    assert failures(server.log[before:]) == []
