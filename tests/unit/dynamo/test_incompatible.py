"""An instance that does not accept this version of the wire gets no calls."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import Gauge

from auricle.core.errors import OtherWireVersion, WorkerUnavailable
from auricle.dynamo.incompatible import Incompatible
from auricle.dynamo.remote import RemoteEndpoint
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer
from auricle.dynamo.wire import to_wire
from auricle.protocol import WIRE
from auricle.protocol.control import Alive, AskAlive, Refusal

pytestmark = pytest.mark.unit
NEWER = 2  # an instance


class Network:
    """Replaces Dynamo's endpoint of two workers; one of them refuses the version."""

    def __init__(self) -> None:
        self.called: list[int] = []

    async def client(self) -> Network:
        return self

    def instance_ids(self) -> list[int]:
        return [1, NEWER]

    async def direct(self, _wire: Any, instance: int, **_: Any) -> AsyncIterator[Any]:
        self.called.append(instance)
        return self._answer(instance)

    async def _answer(self, instance: int) -> AsyncIterator[Any]:
        refused = Refusal(OtherWireVersion.code, "versions 7 to 8 are accepted here")
        yield to_wire(refused if instance == NEWER else Alive(0.0, ""))


class Calls:
    """A caller with two endpoints of the component."""

    def __init__(self) -> None:
        self.network = Network()
        self.gauge = Gauge("incompatible", "in discovery", registry=None)
        self.versions = Incompatible("pd_worker", self.gauge)
        sealer = Signer(Secrets(None, ""))
        self.work, self.other = (
            RemoteEndpoint(
                self.network, f"auricle.pd_worker.{name}", sealer, incompatible=self.versions
            )
            for name in ("work", "other")
        )

    def listed(self) -> float:
        return float(self.gauge._value.get())


async def test_an_instance_is_left_out_from_its_first_report_on() -> None:
    calls = Calls()
    calls.versions.reported(1, (WIRE, WIRE))
    calls.versions.reported(NEWER, (WIRE + 1, WIRE + 1))
    assert await calls.work.usable(1.0) == [1]
    assert calls.listed() == 1


@pytest.mark.parametrize("wires", [(WIRE, WIRE + 1), (WIRE - 1, WIRE)])
async def test_an_instance_that_accepts_a_range_is_used(wires: tuple[int, int]) -> None:
    calls = Calls()
    calls.versions.reported(NEWER, wires)
    assert await calls.work.usable(1.0) == [1, NEWER]
    assert calls.listed() == 0


async def test_an_instance_that_refuses_a_request_is_left_out_at_all_its_endpoints(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = Calls()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(WorkerUnavailable):
                await calls.work.call(AskAlive(), Alive, NEWER, 1.0)
    assert await calls.other.usable(1.0) == [1]
    assert await calls.other.instances() == [1]
    assert await calls.other.others(1) == []
    told = [line for line in caplog.messages if "gets no calls" in line]
    assert told == [
        f"pd_worker 2 gets no calls of this process, which sends version {WIRE}: "
        "versions 7 to 8 are accepted here"
    ]


async def test_a_stream_that_is_refused_can_go_to_another_instance() -> None:
    calls = Calls()
    with pytest.raises(WorkerUnavailable):
        await anext(calls.work.stream(AskAlive(), Alive, NEWER))
    assert await calls.work.instances() == [1]


async def test_with_incompatible_instances_only_the_error_names_the_version() -> None:
    calls = Calls()
    for instance in (1, NEWER):
        calls.versions.reported(instance, (WIRE + 1, WIRE + 1))
    with pytest.raises(WorkerUnavailable, match=f"accepts version {WIRE} of the wire"):
        await calls.work.usable(0.0)
    assert await calls.work.listed() == []
