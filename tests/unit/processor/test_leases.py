"""A processor keeps the sessions of frontends that send probes or audio, and releases others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from auricle.processor.leases import LEASE_SECONDS, FrontendLeases

pytestmark = pytest.mark.unit


class Held:
    """Leases at a time that the test sets, and the sessions that were released."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.leases = FrontendLeases(lambda: self.now)
        self.released: list[str] = []

    def open(self, frontend: str, name: str) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(self.leases.session(frontend, name, lambda: self.released.append(name)))
        return stack

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.leases.check()


@pytest.fixture
def held() -> Held:
    return Held()


def test_the_sessions_of_a_silent_frontend_are_released(held: Held) -> None:
    with held.open("lost", "a"), held.open("lost", "b"), held.open("well", "c"):
        held.passes(LEASE_SECONDS / 2)
        held.leases.heard("well")
        assert held.released == []
        held.passes(LEASE_SECONDS / 2)
        assert held.released == ["a", "b"]


def test_a_frontend_that_is_heard_keeps_its_sessions_for_any_time(held: Held) -> None:
    with held.open("well", "a"):
        for _ in range(10):
            held.passes(LEASE_SECONDS / 2)
            held.leases.heard("well")
        assert held.released == []


def test_a_session_that_has_ended_is_not_released(held: Held) -> None:
    with held.open("lost", "a"):
        with held.open("lost", "b"):
            pass
        held.passes(LEASE_SECONDS)
    held.passes(LEASE_SECONDS)
    assert held.released == ["a"]


def test_a_new_session_renews_the_lease(held: Held) -> None:
    with held.open("well", "a"):
        held.passes(LEASE_SECONDS / 2)
        with held.open("well", "b"):
            held.passes(LEASE_SECONDS / 2)
            assert held.released == []


def test_a_frontend_of_an_older_release_has_no_lease(held: Held) -> None:
    with held.open("", "a"):
        held.passes(10 * LEASE_SECONDS)
        assert held.released == []
