"""The audit of dependencies: vulnerable, unreachable and unchecked packages."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType

import pytest

from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / "requirements/audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["audit"] = module
    spec.loader.exec_module(module)
    return module


audit = _module()


def said(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages})


SAFE = {"name": "fastapi", "version": "1", "vulns": []}
VULNERABLE = {
    "name": "torch",
    "version": "2",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
UNKNOWN = {"name": "nixl", "skip_reason": "Dependency not found on PyPI"}


def test_every_pinned_version_is_asked_about_once() -> None:
    locks = ["a==1\ntorch==2.13.0+cpu\n", "# x\na==2\nb==1 ; python_version > '3'\n", "a==1\n"]
    assert audit.pins(locks) == [["a==1", "b==1", "torch==2.13.0"], ["a==2"]]


def test_a_vulnerability_is_red() -> None:
    text, code = audit.report([audit.findings(said(SAFE, VULNERABLE), "")])
    assert code == 1
    assert "torch 2: PYSEC-1, fixed in 3\ntorch 2: PYSEC-2, fixed in none" in text


def test_a_package_of_which_nothing_is_known_is_named() -> None:
    text, code = audit.report([audit.findings(said(SAFE, UNKNOWN), "")])
    assert (code, text.splitlines()[-1]) == (0, "not on PyPI, not audited: nixl")


def test_a_mirror_that_knows_nothing_is_no_proof_of_safety() -> None:
    with pytest.raises(audit.Unreachable, match="lists none"):
        audit.report([audit.findings(said(UNKNOWN), "")])


def test_no_connection_is_told_from_a_failure() -> None:
    with pytest.raises(audit.Unreachable):
        audit.findings("", "Traceback\n  ...\nrequests.exceptions.ConnectionError: no route\n")
    with pytest.raises(RuntimeError, match="duplicate"):
        audit.findings("", "ERROR:pip_audit._cli:package fastapi has duplicate requirements")


SERVICE_ERROR = "pip_audit._service.interface.ServiceError"


class Service:
    """An advisory service that returns these answers, one per request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, str]) -> None:
        self.answers = list(answers)
        self.paused: list[float] = []
        monkeypatch.setattr(audit.time, "sleep", self.paused.append)

    def ask(self, _group: object) -> object:
        return audit.findings(*self.answers.pop(0))


def test_a_service_that_fails_is_asked_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(monkeypatch, ("", SERVICE_ERROR), ("", SERVICE_ERROR), (said(SAFE), ""))
    assert audit.audit_all([["fastapi==1"]], service.ask)[1] == 0
    assert len(service.paused) == 2


def test_a_service_that_fails_always_counts_as_not_reachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service(monkeypatch, *[("", f"HTTPError: 503\n...\n{SERVICE_ERROR}\n")] * 3)
    with pytest.raises(audit.Unreachable):
        audit.audit_all([["fastapi==1"]], service.ask)


def test_a_vulnerability_is_red_though_the_service_failed_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [(said(VULNERABLE), ""), *[("", SERVICE_ERROR)] * 3]
    service = Service(monkeypatch, *answers)
    text, code = audit.audit_all([["torch==2"], ["torch==1"]], service.ask)
    assert code == 1
    assert "could not be reached for all of them" in text


def test_an_answer_that_makes_no_sense_is_a_failure() -> None:
    with pytest.raises(RuntimeError, match="malformed version"):
        audit.findings("", f"{SERVICE_ERROR}: Received malformed version from PyPI: x")


def test_every_lock_is_audited() -> None:
    locks = {p.name for p in (ROOT / "requirements").glob("*.txt") if "overrides" not in p.name}
    ours = {"cpu.txt", "gpu.txt", "light.txt", "sglang-cpu.txt", "sglang-gpu.txt", "dev.txt"}
    others = {"agents.txt", "bench.txt", "dynamo.txt", "peers.txt", "torch-pypi.txt"}
    assert locks == ours | others
    rule = (ROOT / "Makefile").read_text().partition("\naudit:")[2].partition("\n\n")[0]
    assert "$(filter-out requirements/overrides-%,$(wildcard requirements/*.txt))" in rule
