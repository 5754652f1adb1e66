"""Requests and events over Dynamo's own planes: a handler accepts only its own deployment's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import to_builtins
from prometheus_client import CollectorRegistry

from auricle.config.settings import CommonSettings
from auricle.core.errors import UntrustedCaller
from auricle.dynamo import Route, Runtime
from auricle.dynamo.events import EventPublisher
from auricle.dynamo.remote import RemoteEndpoint
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer
from auricle.dynamo.wire import encoded, from_wire, sealed_to_wire
from auricle.protocol.control import AskDecisions, Decisions, Refusal

pytestmark = pytest.mark.integration
Address = tuple[str, int]
REFUSED = "auricle_internal_messages_refused_total"


@dataclass
class Bench:
    """A process that serves one endpoint, publishes, and calls itself."""

    runtime: Runtime
    registry: CollectorRegistry
    calls: int = 0
    heard: list[Decisions] = field(default_factory=list)

    async def decisions(self, _request: AskDecisions) -> Decisions:
        self.calls += 1
        return Decisions((), leads=True)

    @property
    def client(self) -> RemoteEndpoint:
        return self.runtime.client("planner", "decisions")

    @property
    def instance(self) -> int:
        return self.runtime.instance("planner", "decisions")

    async def raw(self, data: object) -> Any:
        """The endpoint's answer to a direct call."""
        client = await self.runtime._endpoint("planner", "decisions").client()
        (reply,) = [
            reply async for reply in await client.direct(data, self.instance, annotated=False)
        ]
        return reply

    def refused(self, reason: str) -> float:
        return self.registry.get_sample_value(REFUSED, {"reason": reason}) or 0.0


@pytest.fixture
def listening_before() -> set[Address]:
    """Addresses on which earlier tests, for example of NIXL, still listen in this process."""
    return listening()


@pytest.fixture
async def bench(tmp_path: Path, listening_before: set[Address]) -> AsyncIterator[Bench]:
    registry = CollectorRegistry()
    settings = CommonSettings(discovery_path=tmp_path / "d")
    subject = Bench(Runtime(settings, registry=registry), registry)
    route = Route("decisions", AskDecisions, unary=subject.decisions)
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(subject.runtime.serve("planner", [route], until=stop))
    await subject.client.wait_for_instances(30)
    yield subject
    stop.set_result(None)
    await serving


async def test_only_requests_and_events_of_the_deployment_are_taken(
    bench: Bench, tmp_path: Path, listening_before: set[Address]
) -> None:
    # One after the other: a process can create Dynamo's runtime only once.
    reply = await bench.client.call(AskDecisions(), Decisions, bench.instance, 60)
    assert (reply.leads, bench.calls) == (True, 1)

    # Unsigned, as any program could send it.
    answer = await bench.raw(to_builtins(AskDecisions()))
    assert (from_wire(answer, Refusal).code, bench.refused("malformed")) == (
        UntrustedCaller.code,
        1,
    )

    # Signed with the secret of another deployment.
    other = tmp_path / "other"
    other.write_text("b" * 64)
    other.chmod(0o600)
    stranger = Secrets(other, "Common.secret_file")
    path = "auricle.planner.decisions"
    endpoint = bench.runtime._endpoint("planner", "decisions")
    with pytest.raises(UntrustedCaller):
        await RemoteEndpoint(endpoint, path, Signer(stranger)).call(
            AskDecisions(), Decisions, bench.instance, 10
        )
    assert bench.refused("mac") == 1

    # The same request twice.
    sealer = Signer(bench.runtime._secrets)
    sealed = sealer.seal(encoded(AskDecisions()), f"{path}/{bench.instance:x}")
    assert from_wire(await bench.raw(sealed_to_wire(sealed)), Decisions).leads
    refused = from_wire(await bench.raw(sealed_to_wire(sealed)), Refusal)
    assert refused.code == UntrustedCaller.code
    assert bench.calls == 2

    await events_of_strangers_are_not_heard(bench, stranger)
    opened = listening() - listening_before
    assert opened
    assert {ip for ip, _ in opened} == {"127.0.0.1"}


async def events_of_strangers_are_not_heard(bench: Bench, stranger: Secrets) -> None:
    bench.runtime.subscribe("planner", "topic", Decisions, bench.heard.append)
    bench.runtime.publish("planner", "topic", lambda: Decisions(("ours",), leads=True), 0.05)
    topic = bench.runtime._endpoint("planner", "topic")
    publisher = EventPublisher(topic, "auricle.planner.topic", Signer(stranger))
    async with asyncio.timeout(120):
        while not (bench.heard and bench.refused("mac") > 1):
            publisher.publish(Decisions(("forged",), leads=True))
            await asyncio.sleep(0.05)
    publisher.close()
    assert {decisions.lines for decisions in bench.heard} == {("ours",)}


def listening() -> set[Address]:
    """The addresses on which this process listens."""
    return {
        (connection.laddr.ip, connection.laddr.port)
        for connection in psutil.Process().net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
