"""Attacks from within the graph's network: its request plane, its event plane, its ports."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from auricle.dynamo.remote import receiver
from auricle.dynamo.wire import from_wire, sealed_to_wire
from benchmarks.hostile.attackers.seals import Seals
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import ANSWER_SECONDS, Address, Wire
from benchmarks.hostile.case import Case, Outcome, Verdict
from benchmarks.hostile.generators.inside import GOOD, WITNESS, Lie

_PATIENCE = 0.05


class Liar:
    """A Dynamo client that knows where the graph's discovery is.

    It knows the deployment's secret too, and uses it where a case says so.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="liar-")
        self._seals = Seals(Path(target.discovery), Path(self._folder.name))
        self._clients: dict[tuple[str, str], Any] = {}
        self._publishers: dict[str, Any] = {}
        self._runtime: Any = None

    def _path(self, component: str, endpoint: str) -> str:
        return f"{self._target.namespace}.{component}.{endpoint}"

    def _endpoint(self, component: str, endpoint: str) -> Any:
        if self._runtime is None:
            from dynamo.runtime import DistributedRuntime

            self._runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp")
        return self._runtime.endpoint(self._path(component, endpoint))

    async def _instance(self, component: str, endpoint: str) -> tuple[Any, int]:
        at = component, endpoint
        if at not in self._clients:
            client = await self._endpoint(*at).client()
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                await client.wait_for_instances()
            self._clients[at] = client
        return self._clients[at], self._clients[at].instance_ids()[0]

    async def request(self, case: Case) -> Outcome:
        """Send the request, and read what comes back until it ends or keeps silent."""
        lie: Lie = case.data
        try:
            client, instance = await self._instance(lie.component, lie.endpoint)
        except Exception as error:  # Dynamo has no errors of its own
            return Outcome(Verdict.LOST, f"no way in: {error}")
        from dynamo.runtime import Context

        context = Context()
        try:
            message = self._sealed(lie, instance)
            async with asyncio.timeout(max(ANSWER_SECONDS, lie.seconds)):
                replies = await client.direct(message, instance, annotated=False, context=context)
                async for reply in replies:
                    return _judged(reply, lie.seal)
            return Outcome(Verdict.CLOSED, "ended without a reply")
        except TimeoutError:
            # A session that was opened is silent: nobody sends it audio.
            silent = lie.endpoint == "open"
            return Outcome(Verdict.WAITED if silent else Verdict.HANG, "no reply")
        except Exception as error:
            return _refused(str(error))
        finally:
            context.stop_generating()

    def _sealed(self, lie: Lie, instance: int) -> Any:
        message = self._named(lie.message)
        if lie.seal == "none":
            return message
        name = receiver(self._path(lie.component, lie.endpoint), instance)
        packed = msgspec.msgpack.encode(message)
        return sealed_to_wire(self._seals.seal(lie.seal, packed, name))

    def _named(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return message
        own = {"session": self._target.witness, "admission": self._target.witness,
               "tenant": self._target.tenant}  # fmt: skip
        return {
            name: own[name] if name in own and one == WITNESS else one
            for name, one in message.items()
        }

    async def publish(self, case: Case) -> Outcome:
        """Publish a payload as a process of the component would."""
        from auricle.dynamo.events import EventPublisher
        from auricle.load.reports import LOAD_TOPIC

        component = case.data["component"]
        topic = self._path(component, LOAD_TOPIC)
        if component not in self._publishers:
            endpoint = self._endpoint(component, LOAD_TOPIC)
            self._publishers[component] = EventPublisher(endpoint, topic, self._seals.good)
            await asyncio.sleep(1.0)  # until subscribers have found it; there is no sign of that
        payload = self._seals.seal(case.data["seal"], case.data["payload"], topic)
        _published(self._publishers[component], payload, case.number)
        await asyncio.sleep(0.002)
        return Outcome(Verdict.WAITED)

    def close(self) -> None:
        """Leave the graph."""
        for publisher in self._publishers.values():
            publisher.close()
        if self._runtime is not None:
            self._runtime.shutdown()
        self._folder.cleanup()


def _published(publisher: Any, payload: bytes, number: int) -> None:
    """Send bytes where the publisher sends its messages, which are well-formed."""
    publisher._socket.send_multipart((b"", number.to_bytes(8, "big"), payload))


def _judged(wire: Any, seal: str) -> Outcome:
    """Judge a reply, a refusal among them, to a request that was sealed in that way."""
    try:
        reply = from_wire(wire, dict[str, Any])
    except msgspec.ValidationError as error:
        return Outcome(Verdict.FAILED, f"{error}: {wire!r}"[:200])
    if reply.get("type") == "Refusal":
        code, message = str(reply.get("code")), str(reply.get("message"))
        if code == "internal":
            return Outcome(Verdict.FAILED, f"internal: {message[:200]}")
        # Processes may speak of types among themselves; no client reads this.
        return Outcome(Verdict.REFUSED, f"{code}: {message[:200]}")
    if seal not in (GOOD, "twice"):  # there may be none to be sent a second time
        return Outcome(Verdict.FAILED, f"a stranger is obeyed: {reply!r}"[:200])
    return Outcome(Verdict.ANSWERED, repr(reply)[:200])


def _refused(text: str) -> Outcome:
    # Before the endpoint's own handler: Dynamo refuses what it cannot send or decode.
    return Outcome(Verdict.REFUSED, f"by the transport: {text[:200]}")


async def garbage(target: Target, case: Case) -> Outcome:
    """Send bytes to one of the ports or sockets inside the graph."""
    places = [
        *(Address(port.host, port.number) for port in target.ports),
        *(Address(path=path) for path in target.sockets),
    ]
    if not places:
        return Outcome(Verdict.LOST, "nothing inside the graph listens")
    wire = await Wire.open(places[int(case.data["port"] * len(places)) % len(places)])
    try:
        await wire.send(case.data["data"])
        # A port that awaits more may keep the connection until this side has left.
        await wire.glance(_PATIENCE)
        return Outcome(Verdict.ANSWERED if wire.unread else Verdict.WAITED)
    finally:
        wire.close()
