"""An endpoint rejects requests from outside its deployment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from auricle.core.errors import BadRequest, OtherWireVersion, UntrustedCaller
from auricle.dynamo.handling import Route, handler
from auricle.dynamo.refusals import Refusals
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer, Verifier
from auricle.dynamo.wire import encoded, from_wire, sealed_to_wire, to_wire
from auricle.process.logs import Repeats
from auricle.protocol import WIRE
from auricle.protocol.control import Alive, Refusal
from auricle.protocol.recognition import EncodeReply, EncodeRequest

pytestmark = pytest.mark.unit
RECEIVER = "auricle.encode_worker.generate/1"
REQUEST = EncodeRequest("s", "t", ())


class Context:
    """A request whose caller stays connected."""

    async def async_killed_or_stopped(self) -> None:
        await asyncio.Event().wait()


class Endpoint:
    """An endpoint's handler as Dynamo calls it."""

    def __init__(self, path: Path) -> None:
        path.write_text("s" * 64)
        path.chmod(0o600)
        self.secrets = Secrets(path, "Common.secret_file")
        self.sealer = Signer(self.secrets)
        self.registry = CollectorRegistry()
        self.handled: list[EncodeRequest] = []
        route = Route("generate", EncodeRequest, unary=self.encode)
        refusals = Refusals(self.registry)
        self._handle = handler(route, Verifier(self.secrets, RECEIVER), refusals)

    async def encode(self, request: EncodeRequest) -> EncodeReply:
        self.handled.append(request)
        return EncodeReply((), 0)

    async def call(self, data: Any) -> Any:
        (reply,) = [reply async for reply in self._handle(data, Context())]
        return from_wire(reply, EncodeReply | Refusal)

    def sealed(self, message: bytes) -> dict[str, Any]:
        return sealed_to_wire(self.sealer.seal(message, RECEIVER))

    def refused(self, reason: str) -> float:
        name = "auricle_internal_messages_refused_total"
        return self.registry.get_sample_value(name, {"reason": reason}) or 0.0


@pytest.fixture
def endpoint(tmp_path: Path) -> Endpoint:
    return Endpoint(tmp_path / "secret")


async def test_a_request_of_the_deployment_is_handled(endpoint: Endpoint) -> None:
    assert await endpoint.call(endpoint.sealed(encoded(REQUEST))) == EncodeReply((), 0)
    assert endpoint.handled == [REQUEST]


@pytest.mark.parametrize(
    "data",
    [
        None,
        "sealed",
        [],
        {},
        {"sealed": None},
        {"sealed": "text"},
        {"sealed": b""},
        {"sealed": bytes(40)},
        msgspec.to_builtins(REQUEST),
    ],
)
async def test_what_is_not_sealed_reaches_no_handler(endpoint: Endpoint, data: object) -> None:
    refusal = await endpoint.call(data)
    assert refusal.code == UntrustedCaller.code
    assert endpoint.handled == []
    assert endpoint.refused("malformed") == 1


async def test_a_request_sent_again_reaches_no_handler(endpoint: Endpoint) -> None:
    data = endpoint.sealed(encoded(REQUEST))
    await endpoint.call(data)
    assert (await endpoint.call(data)).code == UntrustedCaller.code
    assert endpoint.handled == [REQUEST]
    assert endpoint.refused("repeated") == 1


async def test_a_request_of_another_version_is_refused_by_name_and_counted(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("auricle.dynamo.signing.WIRE", WIRE + 1)
        data = endpoint.sealed(encoded(REQUEST))
    refusal = await endpoint.call(data)
    assert refusal.code == OtherWireVersion.code
    assert f"has version {WIRE + 1} of the wire" in refusal.message
    assert endpoint.handled == []
    assert endpoint.refused("wire_version") == 1


@pytest.mark.parametrize("message", [b"", b"\xc1", encoded(EncodeReply((), 0)), b"\x81\xa1a\x01"])
async def test_a_malformed_request_of_the_deployment_says_so(
    endpoint: Endpoint, message: bytes
) -> None:
    refusal = await endpoint.call(endpoint.sealed(message))
    assert refusal.code == BadRequest.code
    assert refusal.message.startswith("malformed EncodeRequest")


async def test_a_flood_of_refused_requests_is_summed_up_in_the_log(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    due: list[Callable[[], None]] = []
    caplog.set_level(logging.WARNING, logger="auricle.dynamo")
    with caplog.filtering(Repeats(lambda _seconds, call: due.append(call))):
        for _ in range(1_000):
            await endpoint.call({})
        assert len(caplog.records) == 20
        due.pop()()
    assert "980 more lines" in caplog.text
    assert endpoint.refused("malformed") == 1_000


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"packed": "text"}, {"packed": b"\xc1"}, to_wire(Alive(0.0, ""))],
)
def test_a_reply_of_another_form_is_malformed(data: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        from_wire(data, EncodeReply | Refusal)
