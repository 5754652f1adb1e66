"""The limit of file descriptors is raised to the system's maximum, and bounds the connections."""

from __future__ import annotations

import resource

import pytest

from auricle.process.resources import connections_within_limit, raise_limit

pytestmark = pytest.mark.unit


class Limits:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
        self.now = (soft, hard)
        monkeypatch.setattr(resource, "getrlimit", lambda _which: self.now)
        monkeypatch.setattr(resource, "setrlimit", self._set)

    def _set(self, _which: int, limits: tuple[int, int]) -> None:
        self.now = limits


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (1024, 20_000, 20_000),
        (20_000, 20_000, 20_000),
        (1024, resource.RLIM_INFINITY, 1 << 20),
        (1024, 1 << 30, 1 << 20),
    ],
)
def test_the_soft_limit_becomes_the_hard_one(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: int
) -> None:
    limits = Limits(monkeypatch, soft, hard)
    assert raise_limit() == then
    assert limits.now == (then, hard)


def test_connections_end_before_descriptors_do(monkeypatch: pytest.MonkeyPatch) -> None:
    Limits(monkeypatch, 1024, 1024)
    assert connections_within_limit(8192) == 384
    assert connections_within_limit(8192, grpc=True) == 256
    assert connections_within_limit(100) == 100
    Limits(monkeypatch, 20_000, 20_000)
    assert connections_within_limit(8192) == 8192
