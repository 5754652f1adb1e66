"""The gatherer's inventory, probes and diagnoses, and the description of a process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest

from auricle import __version__
from auricle.config.settings import CommonSettings
from auricle.core.errors import AuricleError, DeadlineExceeded, RateLimited, WorkerUnavailable
from auricle.dynamo.registration import SelfDescription
from auricle.frontend.ops import gatherer as module
from auricle.frontend.ops.gatherer import (
    Gatherer,
    ProbeTargets,
    discovery_state,
    inventory,
    probe_targets,
    probes,
)
from auricle.frontend.transport.access.keys import new_key
from auricle.process.draining import Drain
from auricle.process.liveness import Liveness
from auricle.process.transport import memory_lock_trouble, possible
from auricle.protocol import WIRE
from auricle.protocol.control import Alive, AskAlive
from auricle.protocol.diagnosis import (
    AskDescription,
    AskProbe,
    Description,
    Diagnosis,
    DiscoveryState,
    Parts,
    Probed,
    ProcessAnswer,
)
from tests.fakes.clock import Clock
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
SAID = Description("host-a", 1, 100.0, {"auricle": "1"}, 0.0, "", False, Parts())
PROBED = Probed(0.1, 0.2, 0.3)
Answer = msgspec.Struct | AuricleError


class Endpoint:
    """An endpoint whose instances give scripted answers, or none."""

    def __init__(self, answers: Mapping[int, Answer | None], gone: bool = False) -> None:
        self.answers = answers
        self.gone = gone
        self.asked: list[tuple[int, msgspec.Struct]] = []
        self.was_asked = asyncio.Event()

    async def listed(self) -> list[int]:
        if self.gone:
            raise WorkerUnavailable("discovery cannot be followed")
        return list(self.answers)

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> msgspec.Struct:
        self.asked.append((instance, message))
        self.was_asked.set()
        answer = self.answers[instance]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, AuricleError):
            raise answer
        assert isinstance(answer, reply)
        return cast(msgspec.Struct, answer)


async def test_every_listed_process_is_in_the_inventory_also_one_that_does_not_answer() -> None:
    workers = Endpoint({2: SAID, 1: DeadlineExceeded("AskDescription took longer than 3 s")})
    found = await inventory({"encode_worker": workers}, wall_clock=lambda: 90.0)
    assert [(a.instance, a.fault) for a in found.answers] == [("1", "deadline"), ("2", "")]
    assert found.answers[1].description == SAID
    assert found.answers[1].clock_ahead_seconds == pytest.approx(10.0, abs=0.5)


async def test_a_component_that_discovery_says_nothing_of_is_named() -> None:
    found = await inventory({"processor": Endpoint({}, gone=True), "planner": Endpoint({})})
    assert found.unlisted == ("processor",)
    assert found.answers == ()


async def test_no_more_processes_are_asked_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PROCESSES", 2)
    found = await inventory({"pd_worker": Endpoint({1: SAID, 2: SAID, 3: SAID})})
    assert len(found.answers) == 2
    assert found.unasked == 1


def there(
    component: str,
    *instances: int,
    draining: bool = False,
    wires: tuple[int, int] = (WIRE, WIRE),
) -> list[ProcessAnswer]:
    said = msgspec.structs.replace(SAID, draining=draining, wires=wires)
    return [ProcessAnswer(component, f"{i:x}", 0.0, said) for i in instances]


def test_every_instance_takes_part_in_a_probe() -> None:
    answers = [
        *there("processor", 1),
        *there("encode_worker", 21, 22, 23),
        *there("pd_worker", 31, 32),
    ]
    assert probe_targets(answers) == (
        ProbeTargets(1, 21, 31),
        ProbeTargets(1, 22, 32),
        ProbeTargets(1, 23, 31),
    )


def test_who_leaves_or_does_not_answer_takes_part_in_none() -> None:
    answers = [
        *there("processor", 1),
        *there("encode_worker", 21, 22, draining=True),
        *there("encode_worker", 23),
        *there("pd_worker", 31),
        ProcessAnswer("pd_worker", "20", 3.0, None, fault="deadline"),
    ]
    assert probe_targets(answers) == (ProbeTargets(1, 23, 31),)
    assert probe_targets(there("processor", 1)) == ()


def test_processes_take_part_with_those_that_accept_their_version() -> None:
    newer, both = (WIRE + 1, WIRE + 1), (WIRE, WIRE + 1)
    answers = [
        *there("processor", 1),
        *there("processor", 2, wires=both),
        *there("processor", 3, wires=newer),  # not for this frontend
        *there("encode_worker", 21),
        *there("encode_worker", 22, wires=both),
        *there("pd_worker", 31, wires=both),
        *there("pd_worker", 32, wires=newer),
    ]
    assert probe_targets(answers) == (
        *(ProbeTargets(1, 21, 31), ProbeTargets(1, 22, 31)),
        *(ProbeTargets(2, 22, 31), ProbeTargets(2, 22, 32)),
    )


async def test_a_probe_has_its_times_or_its_fault() -> None:
    endpoint = Endpoint({1: PROBED, 2: WorkerUnavailable("gone")})
    first, second = await probes(endpoint, (ProbeTargets(1, 21, 31), ProbeTargets(2, 22, 32)))
    assert (first.processor, first.encode_worker, first.pd_worker) == ("1", "15", "1f")
    assert first.steps == PROBED
    assert (second.steps, second.fault) == (None, "unavailable")
    assert [message for _, message in endpoint.asked] == [AskProbe(21, 31), AskProbe(22, 32)]


async def test_probes_that_time_does_not_reach_are_said_not_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ALL_PROBES_SECONDS", 1.0)  # the others have the same limit
    endpoint = Endpoint({1: None, 2: PROBED})
    wanted = (ProbeTargets(1, 21, 31), ProbeTargets(1, 22, 32), ProbeTargets(2, 21, 31))
    made = await probes(endpoint, wanted)
    assert [probe.fault for probe in made] == ["not_reached", "not_reached", ""]


def settings(path: Path, **values: Any) -> CommonSettings:
    return CommonSettings(discovery_path=path, **values)


def gatherer(path: Path, processes: dict[str, Endpoint], clock: Callable[[], float]) -> Gatherer:
    unused = Endpoint({})
    probe = Endpoint({1: PROBED})
    return Gatherer(
        settings(path), processes, probe, unused, unused, lambda: SAID, lambda: None, clock
    )


async def test_a_diagnosis_has_this_process_the_others_and_probes(tmp_path: Path) -> None:
    processes = {
        "processor": Endpoint({1: SAID}),
        "encode_worker": Endpoint({2: SAID}),
        "pd_worker": Endpoint({3: SAID}),
    }
    found = await gatherer(tmp_path, processes, Clock(0.0)).diagnose()
    assert [a.component for a in found.processes] == ["frontend", *processes]
    assert [(p.processor, p.encode_worker, p.pd_worker) for p in found.probes] == [("1", "2", "3")]
    assert (found.discovery.backend, found.discovery.state) == ("file", "up")


async def test_one_diagnosis_is_made_at_a_time_and_then_there_is_a_rest(tmp_path: Path) -> None:
    clock = Clock(0.0)
    hung = Endpoint({1: None})
    doctor = gatherer(tmp_path, {"processor": hung}, clock)
    running = asyncio.create_task(doctor.diagnose())
    await hung.was_asked.wait()
    with pytest.raises(RateLimited, match="another diagnosis") as refused:
        await doctor.diagnose()
    assert refused.value.retry_after_seconds >= 1
    running.cancel()
    await asyncio.wait([running])
    hung.answers = {1: SAID}
    with pytest.raises(RateLimited, match="just now"):
        await doctor.diagnose()
    clock.now += 2.0
    await doctor.diagnose()


async def test_discovery_is_up_if_its_directory_or_one_etcd_is_there(tmp_path: Path) -> None:
    assert await discovery_state(settings(tmp_path)) == "up"
    assert await discovery_state(settings(tmp_path / "gone")) == "down"
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        there = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        several = settings(tmp_path, discovery="etcd", etcd_endpoints=f"127.0.0.1:1,http://{there}")
        assert await discovery_state(several) == "up"
    alone = settings(tmp_path, discovery="etcd", etcd_endpoints="http://127.0.0.1:1")
    assert await discovery_state(alone) == "down"
    assert await discovery_state(settings(tmp_path, discovery="kubernetes")) == "unknown"


async def test_a_process_says_what_it_is_on_the_endpoint_that_says_that_it_lives() -> None:
    description = SelfDescription(Liveness(), clock=lambda: 7.0)
    assert await description.answer(AskAlive()) == Alive(0.0, "")
    said = await description.answer(AskDescription())
    assert isinstance(said, Description)
    assert (said.pid, said.clock, said.draining) == (os.getpid(), 7.0, False)
    assert said.versions["auricle"] == __version__
    assert {"dynamo", "nixl", "torch", "vllm"} <= said.versions.keys()
    description.drain = Drain(lambda: 0, notice_seconds=0.0, deadline=0.0)
    description.drain.started = True
    assert description.now().draining


@pytest.mark.parametrize(
    ("allowed", "devices", "rdma", "kinds"),
    [
        ("", "", [], ("TCP", "shared memory")),
        ("", "", ["mlx5_0"], ("RDMA", "TCP", "shared memory")),
        ("", "lo", ["mlx5_0"], ("TCP", "shared memory")),
        ("all", "mlx5_0:1", ["mlx5_0"], ("RDMA", "TCP", "shared memory")),
        ("tcp,self,cuda_copy", "", ["mlx5_0"], ("TCP",)),
        ("rc_x,rc,dc_x,dc,cuda_copy,cuda_ipc", "", ["mlx5_0"], ("RDMA",)),
        ("rc_x", "", [], ()),
        ("sm,self", "", [], ("shared memory",)),
        ("^tcp", "", [], ("shared memory",)),
        ("^rc", "", ["mlx5_0"], ("RDMA", "TCP", "shared memory")),
        ("^ib,rc", "", ["mlx5_0"], ("TCP", "shared memory")),
        ("something_new", "", ["mlx5_0"], ("RDMA", "TCP", "shared memory")),
    ],
)
def test_only_what_machine_and_environment_leave_possible_is_said(
    allowed: str, devices: str, rdma: list[str], kinds: tuple[str, ...]
) -> None:
    assert possible(allowed, devices, rdma) == kinds


@pytest.mark.parametrize(
    ("allowed", "may"),
    [("", True), ("all", True), ("rc,cuda_copy,cuda_ipc", True), ("tcp,cuda", True), ("^tcp", True),
     ("tcp,cuda_copy", False), ("^cuda_ipc", False)],
)  # fmt: skip
def test_cuda_ipc_is_possible_for_embeddings_on_a_gpu_unless_forbidden(
    allowed: str, may: bool
) -> None:
    assert ("CUDA IPC" in possible(allowed, "", [], on_device=True)) is may
    assert "CUDA IPC" not in possible(allowed, "", [])


def test_rdma_with_little_lockable_memory_is_reported() -> None:
    assert memory_lock_trouble(-1, False) is None
    assert memory_lock_trouble(8 << 20, True) is None
    trouble = memory_lock_trouble(8 << 20, False)
    assert trouble is not None and "is 8192 KiB (ulimit -l)" in trouble
    assert "LimitMEMLOCK=infinity" in trouble


async def test_only_a_key_for_operations_may_ask() -> None:
    (client, its), (operator, theirs) = new_key("acme"), new_key("ops", scopes=["operations"])
    front = Front([its, theirs])
    made: list[Diagnosis] = []

    async def diagnose() -> Diagnosis:
        if made:
            raise RateLimited("a diagnosis was made just now", 1.2)
        made.append(Diagnosis("auricle", 0.0, 0.0, (), 0, (), DiscoveryState("file", "up")))
        return made[0]

    front.gatherer.diagnose = diagnose

    async def asked(key: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(headers=headers) as http:
            return await http.get(f"{front.url}/v1/diagnosis")

    async with front.serving():
        assert [(await asked(key)).status_code for key in ("", client)] == [401, 403]
        assert not made
        answer = await asked(operator)
        assert answer.headers["content-type"] == "application/json"
        assert msgspec.json.decode(answer.content, type=Diagnosis) == made[0]
        late = await asked(operator)
        assert (late.status_code, late.headers["retry-after"]) == (429, "2")
