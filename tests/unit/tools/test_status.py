"""`auricle status`: pools, processes, health and load of a deployment in a few lines."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from auricle.cli import main
from auricle.core.errors import AuricleError
from auricle.protocol.diagnosis import Diagnosis, LoadNow, ProcessAnswer
from tests.fakes.deployment import Graph

pytestmark = pytest.mark.unit
LOADS = {
    "": LoadNow("sessions", 3, 64),
    "b1": LoadNow("sessions", 4, 40),
    "c1": LoadNow("requests", 1, 256, 0.1),
    "c2": LoadNow("requests", 0, 256, 0.3),
    "d1": LoadNow("decodes", 2, 32, 0.5),
    "d2": LoadNow("decodes", 3, 32, None),
}


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    for name, load in LOADS.items():
        graph.parts(name, load=load)
    return graph


def asked(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *arguments: str, url: str = "http://h:1"
) -> Result:
    async def ask(_url: str, _key: str | None) -> Diagnosis:
        return graph.diagnosis()

    monkeypatch.setattr("auricle.tools.doctor.ask", ask)
    return CliRunner().invoke(main, ["status", "--url", url, *arguments])


def test_a_pool_is_a_line_and_so_are_its_processes_if_there_are_several(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = asked(graph, monkeypatch)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == [
        "http://h:1, namespace auricle: well",
        "processes state in work busy slots used (leased) KV tokens",
        "frontend 1 well 3 of 64 sessions",
        "processors 1 well 4 of 40 sessions",
        "encode workers 2 well 1 of 512 requests 20% 512 of 512 (6)",
        "host-a, pid 42 well 1 of 256 requests 10% 256 of 256 (3)",
        "host-a, pid 43 well 0 of 256 requests 30% 256 of 256 (3)",
        "PD workers 2 well 5 of 64 decodes 50% 512 of 512 (6) 160000",
        "host-a, pid 44 well 2 of 32 decodes 50% 256 of 256 (3) 80000",
        "host-a, pid 45 well 3 of 32 decodes 256 of 256 (3) 80000",
    ]


def test_what_is_wrong_is_named_and_is_the_exit_status(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.answer("c2", description=None, seconds=3.0, fault="deadline")
    graph.said("d1", silent_seconds=7.0, silent_part="vLLM")
    graph.without("b1")
    done = asked(graph, monkeypatch)
    assert done.exit_code == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "http://h:1, namespace auricle: 3 wrong"
    assert "processors 0 none there" in lines
    assert "encode workers 2 well, deadline 1 of 256 requests 10% 256 of 256 (3)" in lines
    assert "instance c2 deadline" in lines
    assert "host-a, pid 44 silent 2 of 32 decodes 50% 256 of 256 (3) 80000" in lines
    assert "WRONG: No processor is running." in lines
    assert lines[-1] == "`auricle doctor http://h:1` explains why it matters and what to do."


def test_a_process_that_drains_is_not_wrong(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.said("d2", draining=True)
    done = asked(graph, monkeypatch)
    assert done.exit_code == 0
    assert "PD workers 2 well, draining" in " ".join(done.stdout.split())


def test_programs_can_read_it(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.without("d1", "d2")
    done = asked(graph, monkeypatch, "--json")
    assert done.exit_code == 1
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["url"], told["well"]) == ("http://h:1", False)
    assert told["wrong"] == ["No PD worker is running."]
    pools = {pool["component"]: pool["processes"] for pool in told["pools"]}
    assert list(pools) == ["frontend", "processor", "encode_worker", "pd_worker"]
    assert pools["pd_worker"] == []
    assert pools["encode_worker"][0] == {
        "where": "host-a, pid 42",
        "state": "well",
        "load": {"unit": "requests", "now": 1, "limit": 256, "busy": 0.1},
        "slab": {"slots": 256, "used": 256, "leased": 3},
        "kv": None,
    }


def test_an_earlier_processs_description_has_no_load(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During an update, some processes do not report it yet."""
    said = json.loads(msgspec.json.encode(graph.answers["c1"]))
    del said["description"]["parts"]["load"]
    graph.answers["c1"] = msgspec.convert(said, ProcessAnswer)
    done = asked(graph, monkeypatch)
    assert "host-a, pid 42 well 256 of 256 (3)" in " ".join(done.stdout.split())


def test_what_a_process_says_cannot_write_to_the_terminal(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.said("c1", host="\x1b[2J\nhost")
    assert "\x1b" not in asked(graph, monkeypatch).stdout


def test_a_deployment_that_cannot_be_asked_is_another_exit_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(_url: str, _key: str | None) -> Diagnosis:
        raise AuricleError("nothing listens there")

    monkeypatch.setattr("auricle.tools.doctor.ask", ask)
    done = CliRunner().invoke(main, ["status"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "auricle: nothing listens there\n"
