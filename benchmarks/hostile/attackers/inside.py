"""A Dynamo client inside the graph's network, with the deployment's secret or without it."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from auricle.dynamo.remote import receiver
from auricle.dynamo.secrets import SECRET_FILE, Secrets
from auricle.dynamo.signing import Signer, machine_clock
from auricle.dynamo.wire import from_wire, sealed_to_wire
from auricle.load.reports import LOAD_TOPIC
from benchmarks.hostile.attackers import wire
from benchmarks.hostile.inputs import Lie
from benchmarks.hostile.oracle import Outcome, Verdict
from benchmarks.hostile.strategies.inside import GOOD, WITNESS

_OLD_SECONDS = 3_600.0
_NAMESPACE = "auricle"


def environment(target: wire.Target) -> dict[str, str]:
    """The variables by which a Dynamo runtime finds the graph."""
    planes = {"DISCOVERY_BACKEND": "file", "REQUEST_PLANE": "tcp", "EVENT_PLANE": "zmq"}
    values = {"FILE_KV": target.discovery, "LOG": "warn"} | planes
    return {f"DYN_{name}": value for name, value in values.items()}


class _Seals:
    """Seals messages in every way of `strategies.inside.SEALS`."""

    def __init__(self, discovery: Path, folder: Path) -> None:
        made_up = folder / "made-up"
        made_up.touch(mode=0o600)
        made_up.write_text(secrets.token_hex(32))
        known = Secrets(discovery / SECRET_FILE, "the deployment's secret")
        self.good = Signer(known)
        self._others = {
            "old": Signer(known, lambda: max(0.0, machine_clock() - _OLD_SECONDS)),
            "made up": Signer(Secrets(made_up, "a made-up secret")),
        }
        self._last = b""

    def seal(self, how: str, message: bytes, receiver: str) -> bytes:
        if how == "none":
            return message
        if how == "twice" and self._last:
            return self._last
        name = "another.endpoint/1" if how == "of another" else receiver
        sealed = self._others.get(how, self.good).seal(message, name)
        if how in (GOOD, "twice"):
            self._last = sealed
        return sealed[:-1] if how == "cut" else sealed


class Liar:
    """Sends requests and load reports as a process of the graph would."""

    def __init__(self, target: wire.Target) -> None:
        from dynamo.runtime import DistributedRuntime

        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="liar-")
        self._seals = _Seals(Path(target.discovery), Path(self._folder.name))
        self._runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp")
        self._clients: dict[str, Any] = {}
        self._publishers: dict[str, Any] = {}
        self._count = 0

    async def send(self, lie: Lie) -> Outcome:
        """Send the request, and judge its first reply; or publish the report."""
        if lie.endpoint == LOAD_TOPIC:
            return await self._publish(lie)
        from dynamo.runtime import Context

        path, context = f"{_NAMESPACE}.{lie.component}.{lie.endpoint}", Context()
        client = await self._client(path)
        instance = client.instance_ids()[0]
        message = self._named(msgspec.msgpack.decode(lie.packed))
        if lie.seal != "none":
            packed = msgspec.msgpack.encode(message)
            message = sealed_to_wire(self._seals.seal(lie.seal, packed, receiver(path, instance)))
        try:
            async with asyncio.timeout(max(wire.ANSWER_SECONDS, lie.seconds)):
                replies = await client.direct(message, instance, annotated=False, context=context)
                async for reply in replies:
                    return _judged(reply, lie.seal)
            return Outcome(Verdict.CLOSED, "ended without a reply")
        except TimeoutError:
            # An open session without audio is silent.
            silent = lie.endpoint == "open"
            return Outcome(Verdict.WAITED if silent else Verdict.HANG, "no reply")
        except Exception as error:  # Dynamo itself refuses messages that it cannot send or decode
            return Outcome(Verdict.REFUSED, f"by the transport: {str(error)[:200]}")
        finally:
            context.stop_generating()

    async def _client(self, path: str) -> Any:
        if path not in self._clients:
            client = await self._runtime.endpoint(path).client()
            async with asyncio.timeout(2 * wire.ANSWER_SECONDS):
                await client.wait_for_instances()
            self._clients[path] = client
        return self._clients[path]

    def _named(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return message
        own = {"session": self._target.witness, "admission": self._target.witness,
               "tenant": self._target.tenant}  # fmt: skip
        return {key: own.get(key, one) if one == WITNESS else one for key, one in message.items()}

    async def _publish(self, report: Lie) -> Outcome:
        """Publish a payload as a process of the component would."""
        from auricle.dynamo.events import EventPublisher

        topic = f"{_NAMESPACE}.{report.component}.{LOAD_TOPIC}"
        if topic not in self._publishers:
            endpoint = self._runtime.endpoint(topic)
            self._publishers[topic] = EventPublisher(endpoint, topic, self._seals.good)
            await asyncio.sleep(1.0)  # until subscribers have found it, which they do not report
        payload = self._seals.seal(report.seal, report.packed, topic)
        self._count += 1
        # The publisher itself sends well-formed messages only.
        socket = self._publishers[topic]._socket
        socket.send_multipart((b"", self._count.to_bytes(8, "big"), payload))
        await asyncio.sleep(0.002)
        return Outcome(Verdict.WAITED)

    def close(self) -> None:
        """Leave the graph."""
        for publisher in self._publishers.values():
            publisher.close()
        self._runtime.shutdown()
        self._folder.cleanup()


def _judged(reply: Any, seal: str) -> Outcome:
    try:
        said = from_wire(reply, dict[str, Any])
    except msgspec.ValidationError as error:
        return Outcome(Verdict.FAILED, f"{error}: {reply!r}"[:200])
    if said.get("type") == "Refusal":
        # Errors between processes may name types: no client reads them.
        internal = said.get("code") == "internal"
        detail = f"{said.get('code')}: {said.get('message')}"[:200]
        return Outcome(Verdict.FAILED if internal else Verdict.REFUSED, detail)
    if seal not in (GOOD, "twice"):  # the first message with `twice` is valid
        return Outcome(Verdict.FAILED, f"a stranger's request was accepted: {said!r}"[:200])
    return Outcome(Verdict.ANSWERED, repr(said)[:200])
