"""Each defect of a deployment has a finding, and a healthy deployment has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner, Result

from auricle.cli import main
from auricle.ops.checks import findings
from auricle.ops.finding import Finding
from auricle.protocol.diagnosis import (
    BusState,
    Description,
    Diagnosis,
    DiscoveryState,
    KvRoom,
    Parts,
    ProbeAnswer,
    ProcessAnswer,
    RunningModel,
    SlabState,
    TimedRead,
    Transfers,
)
from auricle.tools import doctor as ask
from auricle.tools.doctor import report
from tests.fakes.deployment import MODEL, UCX, VERSIONS, Graph

pytestmark = pytest.mark.unit


def test_nothing_is_found_in_a_deployment_that_is_well() -> None:
    """A slab full of content and two hosts' clocks a second apart are normal."""
    graph = Graph(bus=BusState(up=True, waiting=0))
    graph.answer("c2", clock_ahead_seconds=1.0)
    assert findings(graph.diagnosis()) == []


def aligned(graph: Graph) -> Graph:
    """The same with an align pool, which serves another checkpoint."""
    model = RunningModel("ef56" * 8, "float32")
    for name, component in (("e1", "align_encode_worker"), ("f1", "align_worker")):
        parts = Parts(model=model, slab=SlabState(256, 256, 3), transfers=UCX)
        said = Description("host-a", 60, 0, VERSIONS, 0, "", False, parts)
        graph.answers[name] = ProcessAnswer(component, name, 0.01, said)
    return graph


def test_an_align_pool_with_its_own_checkpoint_is_as_it_should_be() -> None:
    assert findings(aligned(Graph()).diagnosis()) == []


def test_half_an_align_pool_costs_words_and_no_text() -> None:
    graph = aligned(Graph())
    graph.without("f1")
    (found,) = findings(graph.diagnosis())
    assert found.what == "No align worker is running."
    assert "Text comes as before" in found.why


def test_both_halves_of_a_configured_align_pool_are_missed() -> None:
    graph = aligned(Graph())
    graph.without("e1", "f1")
    assert findings(graph.diagnosis()) == []  # zero may be intended
    graph.optional_pools = ("align_encode_worker", "align_worker")
    found = findings(graph.diagnosis())
    assert [f.what for f in found] == [
        "No align encode worker is running.",
        "No align worker is running.",
    ]
    assert all(f.wrong for f in found)


def test_an_aligner_that_is_the_model_has_no_encode_workers_to_miss() -> None:
    graph = aligned(Graph())
    graph.without("e1")
    graph.optional_pools = ("align_worker",)
    assert findings(graph.diagnosis()) == []
    graph.without("f1")
    (found,) = findings(graph.diagnosis())
    assert found.wrong and found.what == "No align worker is running."


def test_a_pool_that_a_planner_may_have_emptied_is_only_noted() -> None:
    graph = Graph()
    graph.optional_pools = ("align_encode_worker", "align_worker")
    said = Description("host-a", 70, 0, VERSIONS, 0, "", False, Parts())
    graph.answers["p1"] = ProcessAnswer("planner", "p1", 0.01, said)
    (found,) = findings(graph.diagnosis())
    assert not found.wrong and "planner has emptied the pool" in found.why


def test_a_translate_pool_that_is_missing_costs_no_text() -> None:
    graph = Graph()
    graph.optional_pools = ("translate_worker",)
    (found,) = findings(graph.diagnosis())
    assert found.wrong and found.what == "No translate worker is running."
    assert "Text comes as before" in found.why
    said = Description("host-a", 70, 0, VERSIONS, 0, "", False, Parts())
    graph.answers["p1"] = ProcessAnswer("planner", "p1", 0.01, said)
    (found,) = findings(graph.diagnosis())
    assert not found.wrong and "starts it" in found.why


def test_translators_must_agree_with_each_other_only() -> None:
    graph = Graph()
    graph.optional_pools = ("translate_worker",)
    for name, checkpoint in (("t1", "a" * 32), ("t2", "a" * 32), ("t3", "b" * 32)):
        parts = Parts(model=RunningModel(checkpoint, "float32"))
        said = Description("host-a", 60, 0, VERSIONS, 0, "", False, parts)
        graph.answers[name] = ProcessAnswer("translate_worker", name, 0.01, said)
    (found,) = findings(graph.diagnosis())
    assert found.what.startswith("Translate worker 3 (host-a, pid 60) runs checkpoint bbbbbbbbbbbb")
    assert "Common.translate_model everywhere" in found.remedy


def test_aligners_must_agree_with_each_other() -> None:
    graph = aligned(Graph())
    graph.parts("f1", model=RunningModel("0" * 32, "bfloat16"))
    graph.parts("e1", transfers=Transfers(("UCX",), ("RDMA",), "", ""))
    found = findings(graph.diagnosis())
    assert any("Common.align_model everywhere" in one.remedy for one in found)
    assert any(one.why == "No embeddings can be read, so words have no times." for one in found)


Break = Callable[[Graph], object]
WRONG: dict[str, tuple[Break, str, str]] = {
    "a pool without a process": (
        lambda g: g.without("d1", "d2"),
        "No PD worker is running.",
        "Start one with the same Common.namespace (auricle)",
    ),
    "a process that hangs": (
        lambda g: g.answer("c2", description=None, seconds=3.0, fault="deadline"),
        "Encode worker 2 (instance c2) is in discovery but did not answer within 3 s.",
        "See its log",
    ),
    "a process that has died": (
        lambda g: g.answer("d1", description=None, fault="unavailable"),
        "PD worker 1 (instance d1) is in discovery but cannot be reached (unavailable).",
        "Its record goes within half a minute if it died.",
    ),
    "a process with another secret": (
        lambda g: g.answer("b1", description=None, fault="untrusted_caller"),
        "Processor 1 (instance b1) refuses the frontend's messages.",
        "Common.secret_file",
    ),
    "an engine that hangs": (
        lambda g: g.said("d1", silent_seconds=7.0, silent_part="vLLM"),
        "A part of PD worker 1 (host-a, pid 44), vLLM, has not answered for 7 s.",
        "After Common.liveness_seconds",
    ),
    "a pool that leaves": (
        lambda g: g.said("b1", draining=True),
        "Every processor that answers is draining.",
        "Start others",
    ),
    "discovery's directory has gone": (
        lambda g: setattr(g, "discovery", DiscoveryState("file", "down")),
        "The discovery backend (file) is not there.",
        "Common.discovery_path",
    ),
    "etcd has gone": (
        lambda g: setattr(g, "discovery", DiscoveryState("etcd", "down")),
        "The discovery backend (etcd) is not there.",
        "Common.etcd_endpoints",
    ),
    "discovery cannot be followed": (
        lambda g: setattr(g, "discovery", DiscoveryState("file", "up", ("planner",))),
        "Discovery did not say which planners there are.",
        "fs.inotify.max_user_instances",
    ),
    "another version": (
        lambda g: g.said("d2", versions=VERSIONS | {"torch": "2.12.1"}),
        "PD worker 2 (host-a, pid 45) runs torch 2.12.1, the others 2.13.0.",
        "Install torch 2.13.0 there too",
    ),
    "no worker that accepts the version": (
        lambda g: [g.said(name, wires=(2, 2)) for name in ("c1", "c2")],
        "Processor 1 (host-a, pid 41) sends version 1 of the wire, which encode worker 1 "
        "(host-a, pid 42) and encode worker 2 (host-a, pid 43) do not accept.",
        "docs/upgrades.md",
    ),
    "another checkpoint": (
        lambda g: g.parts("c2", model=RunningModel("ab12" * 8, "float32")),
        "Encode worker 2 (host-a, pid 43) runs checkpoint ab12ab12ab12…; the others run "
        "cd34cd34cd34….",
        "Common.model",
    ),
    "another data type": (
        lambda g: g.parts("d1", model=RunningModel(MODEL.checkpoint, "bfloat16")),
        "PD worker 1 (host-a, pid 44) runs as bfloat16; the others run as float32.",
        "Common.dtype",
    ),
    "a clock that is wrong": (
        lambda g: g.answer("c2", clock_ahead_seconds=-45.0, seconds=0.5),
        "The clock of encode worker 2 (host-a, pid 43) is 45 s (±0.2) behind the frontend's.",
        "NTP",
    ),
    "no NIXL backend": (
        lambda g: g.parts("c1", transfers=Transfers((), ("TCP",), "", "")),
        "NIXL has no backend in encode worker 1 (host-a, pid 42).",
        "plug-in",
    ),
    "RDMA without a device": (
        lambda g: g.parts("c1", transfers=Transfers(("UCX",), (), "rc", "")),
        "UCX has nothing to transfer with in encode worker 1 (host-a, pid 42): UCX_TLS is 'rc'",
        "allow tcp in UCX_TLS",
    ),
    "transports that do not meet": (
        lambda g: [
            g.parts(name, transfers=Transfers(("UCX",), (kind,), kind, ""))
            for name, kind in (("c1", "RDMA"), ("c2", "RDMA"), ("d1", "TCP"), ("d2", "TCP"))
        ],
        "Encode workers can transfer by RDMA, PD workers by TCP: they have nothing in common.",
        "UCX_NET_DEVICES alike",
    ),
    "a slab whose slots are all leased": (
        lambda g: g.parts("c1", slab=SlabState(256, 256, 256)),
        "256 of 256 slots of encode worker 1 (host-a, pid 42) are leased.",
        "Raise EncodeWorker.slots",
    ),
    "a prompt that cannot be as long as a segment": (
        lambda g: g.parts("d2", kv=KvRoom(80_000, 512, 32)),
        "PD worker 2 (host-a, pid 45) takes 512 tokens, but a segment of 30 s needs 645 tokens",
        "Raise PdWorker.max_model_len",
    ),
    "a KV cache smaller than a segment": (
        lambda g: g.parts("d2", kv=KvRoom(640, 2048, 32)),
        "The KV cache of PD worker 2 (host-a, pid 45) holds 640 tokens, but a segment of 30 s",
        "Raise PdWorker.kv_blocks",
    ),
    "a KV cache without room for the positions of cross-attention": (
        lambda g: g.parts("d2", kv=KvRoom(2000, 2048, 32, attended=1504)),
        "The KV cache of PD worker 2 (host-a, pid 45) holds 2000 tokens, but a segment of 30 s "
        "needs 645 tokens in addition to its context (and 1504 positions that it attends to).",
        "Raise PdWorker.kv_blocks",
    ),
    "a probe that is not answered": (
        lambda g: setattr(g, "probe", ProbeAnswer("b1", "c1", "d1", None, "deadline")),
        "A probe failed (deadline): processor 1 (host-a, pid 41) did not answer.",
        "processor's log",
    ),
    "an encode worker that is full": (
        lambda g: g.probed(failed="encode", fault="overloaded"),
        "Encode worker 1 (host-a, pid 42) refused a probe because it is full.",
        "Add workers",
    ),
    "embeddings that cannot be read": (
        lambda g: g.probed(failed="decode", fault="windows_missing"),
        "PD worker 1 (host-a, pid 44) could not read embeddings from encode worker 1",
        "UCX_TLS",
    ),
    "a worker that one processor cannot call": (
        lambda g: g.probed(failed="encode", fault="unavailable"),
        "A probe failed at encode worker 1 (host-a, pid 42) (unavailable), called by processor 1",
        "network between the two",
    ),
    "a bus that is down": (
        lambda g: setattr(g, "bus", BusState(up=False, waiting=12)),
        "NATS does not take transcripts; 12 wait for it.",
        "Common.nats_server",
    ),
}


def timed(graph: Graph, memory: str, read: TimedRead) -> None:
    """Let PD worker 1 have timed a read from the first encode worker, both with this memory."""
    for name, agent in (("c1", "encode-1"), ("d1", "pd-1")):
        transfers = Transfers(("UCX",), ("CUDA IPC", "TCP"), "", "", memory, agent)
        graph.parts(name, transfers=transfers)
    for name in ("c2", "d2"):
        graph.parts(name, transfers=Transfers(("UCX",), ("CUDA IPC", "TCP"), "", "", memory))
    graph.parts("d1", timed_reads=(read,))


NOTICES: dict[str, tuple[Break, str]] = {
    "a worker of another version": (
        lambda g: [g.said("c1", wires=(1, 2)), g.said("c2", wires=(2, 2))],
        "Processor 1 (host-a, pid 41) sends version 1 of the wire, which encode worker 2 "
        "(host-a, pid 43) does not accept.",
    ),
    "one of several drains": (
        lambda g: g.said("c2", draining=True),
        "Encode worker 2 (host-a, pid 43) is draining.",
    ),
    "less KV than requests of the longest segment": (
        lambda g: g.parts("d1", kv=KvRoom(6450, 2048, 32)),
        "The KV cache of PD worker 1 (host-a, pid 44) holds 10 of the longest segments, and 32",
    ),
    "less KV than requests with their positions of cross-attention": (
        lambda g: g.parts("d1", kv=KvRoom(20_000, 2048, 10, attended=1504)),
        "The KV cache of PD worker 1 (host-a, pid 44) holds 9 of the longest segments",
    ),
    "a slow probe": (
        lambda g: g.probed(decode_seconds=1.5),
        "A second of audio took 1.5 s by way of processor 1 (host-a, pid 41), encode worker 1",
    ),
    "a probe that was not reached": (
        lambda g: setattr(g, "probe", ProbeAnswer("b1", "c1", "d1", None, "not_reached")),
        "Time ran out before a probe by way of processor 1",
    ),
    "slow reads between GPUs": (
        lambda g: timed(g, "GPU", TimedRead("encode-1", "GPU", 16_000_000, 0.032)),
        "PD worker 1 (host-a, pid 44) reads from encode worker 1 (host-a, pid 42) at 0.50 GB/s, "
        "from memory of the GPU to memory of the GPU; 1 is the least to expect.",
    ),
    "slow reads of host memory": (
        lambda g: timed(g, "host", TimedRead("encode-1", "host", 16_000_000, 0.2)),
        "PD worker 1 (host-a, pid 44) reads from encode worker 1 (host-a, pid 42) at 0.08 GB/s, "
        "from memory of the host to memory of the host; 0.1 is the least to expect.",
    ),
    "reads that could not be timed": (
        lambda g: timed(g, "host", TimedRead("encode-1", "host", fault="all 4 slots are in use")),
        "PD worker 1 (host-a, pid 44) could not time reads from encode worker 1 (host-a, pid 42): "
        "all 4 slots are in use.",
    ),
    "too many processes": (
        lambda g: setattr(g, "unasked", 7),
        "7 processes were not asked: there are too many.",
    ),
}


def found_in(broken: Break) -> Finding:
    graph = Graph()
    broken(graph)
    found = [f for f in findings(graph.diagnosis()) if f.wrong] or findings(graph.diagnosis())
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("defect", WRONG)
def test_a_defect_is_said_with_what_to_do(defect: str) -> None:
    broken, what, remedy = WRONG[defect]
    found = found_in(broken)
    assert found.wrong
    assert found.what.startswith(what)
    assert remedy in found.remedy
    assert found.why.endswith(".")


@pytest.mark.parametrize("case", NOTICES)
def test_what_needs_no_mending_is_a_notice(case: str) -> None:
    broken, what = NOTICES[case]
    found = found_in(broken)
    assert not found.wrong
    assert found.what.startswith(what)


@pytest.mark.parametrize(
    ("memory", "host", "remedy"),
    [
        ("GPU", "host-a", "CUDA IPC"),
        ("GPU", "host-b", "nvidia-peermem"),
        ("host", "host-a", "/dev/shm"),
        ("host", "host-b", "faster interface"),
    ],
)
def test_the_remedy_of_slow_reads_is_that_of_their_medium(
    memory: str, host: str, remedy: str
) -> None:
    graph = Graph()
    timed(graph, memory, TimedRead("encode-1", memory, 1_000_000, 0.1))
    graph.said("c1", host=host)
    (found,) = findings(graph.diagnosis())
    assert remedy in found.remedy


@pytest.mark.parametrize(("memory", "seconds"), [("GPU", 0.01), ("host", 0.1)])
def test_reads_at_a_usual_rate_are_in_the_report_only(memory: str, seconds: float) -> None:
    graph = Graph()
    timed(graph, memory, TimedRead("encode-1", memory, 16_000_000, seconds))
    diagnosis = graph.diagnosis()
    assert findings(diagnosis) == []
    rate = 16e6 / seconds / 1e9
    line = f"    reads from encode worker 1 (host-a, pid 42): {rate:.2f} GB/s"
    assert line in list(report("http://a", diagnosis, []))


def test_reads_from_a_process_that_has_ended_are_left_out() -> None:
    graph = Graph()
    timed(graph, "GPU", TimedRead("encode-0", "GPU", 1_000_000, 1.0))
    assert findings(graph.diagnosis()) == []


def test_what_is_wrong_comes_first() -> None:
    graph = Graph(bus=BusState(up=False, waiting=0))
    graph.probed(decode_seconds=1.5)
    assert [f.wrong for f in findings(graph.diagnosis())] == [True, False]


def test_the_report_says_that_nothing_is_wrong_and_what_is_unknown() -> None:
    diagnosis = Graph().diagnosis()
    lines = list(report("http://a", diagnosis, findings(diagnosis)))
    assert lines[0] == (
        "http://a, namespace auricle: 1 frontend, 1 processor, 2 encode workers, 2 PD workers"
    )
    assert "transport unknown (TCP or shared memory)" in lines[3]
    probe = "  probe by processor 1, encode worker 1 and PD worker 1: 45 ms (log-mel 3, encode 12"
    assert any(line.startswith(probe) for line in lines)
    assert lines[-1] == "Nothing is wrong."


def test_nothing_in_a_report_commands_the_terminal() -> None:
    graph = Graph()
    graph.said("c1", host="a\x1b[2J\nNothing is wrong.", draining=True)
    diagnosis = graph.diagnosis()
    lines = list(report("http://a", diagnosis, findings(diagnosis)))
    assert all(line.isprintable() for line in lines)


CLIENT = httpx.AsyncClient
Answer = Callable[[httpx.Request], httpx.Response]


def asked(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, *options: str, url: str = "http://a:1"
) -> Result:
    """Run the command with a server that gives scripted answers."""
    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(ask.httpx, "AsyncClient", lambda **of: CLIENT(transport=transport, **of))
    return CliRunner().invoke(main, ["doctor", url, *options])


def answering(graph: Graph) -> Answer:
    body = msgspec.json.encode(graph.diagnosis())
    return lambda request: httpx.Response(
        200 if request.url.path == "/v1/diagnosis" else 404, content=body
    )


def test_the_exit_code_says_whether_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, answering(Graph())).exit_code == 0
    slow = Graph()
    slow.probed(decode_seconds=1.5)
    assert asked(monkeypatch, answering(slow)).exit_code == 0
    broken = Graph(bus=BusState(up=False, waiting=0))
    done = asked(monkeypatch, answering(broken))
    assert done.exit_code == 1
    assert done.output.endswith("1 wrong.\n")


def test_json_has_findings_and_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Graph(bus=BusState(up=False, waiting=3))
    done = asked(monkeypatch, answering(broken), "--json")
    document = msgspec.json.decode(done.output)
    assert [finding["wrong"] for finding in document["findings"]] == [True]
    assert msgspec.convert(document["diagnosis"], Diagnosis) == broken.diagnosis()


ERROR = {"error": {"message": "this API key is not for operations"}}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(403, json=ERROR), "refused with 403: this API key is not for operations"),
        (httpx.Response(404), "there is no /v1/diagnosis: not auricle, or an older version"),
        (httpx.Response(200, content=b"<html>"), "is not a diagnosis of this version"),
        (httpx.Response(502, content=b"\x1b[2Jbad"), r"refused with 502: \x1b[2Jbad"),
    ],
)
def test_no_diagnosis_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, said: str
) -> None:
    done = asked(monkeypatch, lambda _: answer)
    assert done.exit_code == 2
    assert said in done.output


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "_MAX_BYTES", 1 << 20)
    done = asked(monkeypatch, lambda _: httpx.Response(200, content=b" " * (2 << 20)))
    assert done.exit_code == 2
    assert "more than 1 MiB" in done.output


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://a", "http://", "http://a:port"])
def test_an_address_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    done = asked(monkeypatch, answering(Graph()), url=url)
    assert done.exit_code == 2
    assert f"'{url}' is not an address; a server's address is like" in done.output


def test_it_waits_while_another_diagnosis_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(ask.asyncio, "sleep", sleep)
    answers = [httpx.Response(429, headers={"retry-after": "5"}), answering(Graph())]

    def answer(request: httpx.Request) -> httpx.Response:
        first = answers.pop(0)
        return first if isinstance(first, httpx.Response) else first(request)

    assert asked(monkeypatch, answer).exit_code == 0
    assert waited == [5.0]


def test_the_key_is_sent_and_a_bad_one_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return answering(Graph())(request)

    file = tmp_path / "key"
    file.write_text("auricle-k\n")
    assert asked(monkeypatch, answer, "--api-key-file", str(file)).exit_code == 0
    assert seen == ["Bearer auricle-k"]
    file.write_text("clé")
    done = asked(monkeypatch, answer, "--api-key-file", str(file))
    assert done.exit_code == 2
    assert "that is no API key" in done.output
