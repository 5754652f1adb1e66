"""Calls between processes of one machine share a connection, with unchanged semantics."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from auricle.config.settings import CommonSettings
from auricle.core.aio import TaskOwner, cancelled
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    Overloaded,
    UntrustedCaller,
    WorkerUnavailable,
)
from auricle.dynamo.handling import Route, handler
from auricle.dynamo.local.client import WRITE_AHEAD_BYTES, LocalCalls
from auricle.dynamo.local.frames import (
    AHEAD,
    BadFrame,
    FrameReader,
    Kind,
    LocalMetrics,
    packed,
    socket_path,
)
from auricle.dynamo.local.server import LocalPlane, LocalServer
from auricle.dynamo.network import call_sockets
from auricle.dynamo.refusals import Refusals
from auricle.dynamo.remote import RemoteEndpoint, receiver
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer, Verifier
from auricle.dynamo.wire import encoded, from_wire
from auricle.protocol.control import Refusal
from auricle.protocol.sessions import Accepted, EndAudio
from auricle_testing.server import eventually
from tests.fakes.doors import event_loop_policy

__all__ = ["event_loop_policy"]  # uvloop, as in production: its transports behave differently

pytestmark = pytest.mark.unit
INSTANCE = 7
LONG = 60.0


class Plane:
    """Replaces Dynamo's request plane; it reaches no instance."""

    def __init__(self) -> None:
        self.called = 0

    async def client(self) -> Plane:
        return self

    def instance_ids(self) -> list[int]:
        return [INSTANCE]

    async def direct(self, *_: object, **__: object) -> None:
        self.called += 1
        raise RuntimeError("Unavailable: not over this plane")


class Machine:
    """A process with two endpoints, and a caller of them. Session names select the behaviour."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "c"
        secret = directory / "secret"
        secret.write_text("s" * 64)
        secret.chmod(0o600)
        self.secrets = Secrets(secret, "Common.secret_file")
        self.go_on = asyncio.Event()
        self.began = asyncio.Event()
        self.cut = asyncio.Event()
        self.sent = 0
        self.registry = CollectorRegistry()
        self.tasks = TaskOwner()
        refusals = Refusals(self.registry)
        routes = (
            Route("end", EndAudio, unary=self.end),
            Route("open", EndAudio, streamed=self.open),
        )
        self.server = LocalServer(
            socket_path(self.directory, INSTANCE),
            {
                f"auricle.processor.{route.name}": handler(
                    route,
                    Verifier(self.secrets, receiver(f"auricle.processor.{route.name}", INSTANCE)),
                    refusals,
                )
                for route in routes
            },
            LocalMetrics(self.registry),
            self.tasks,
        )
        self.plane = Plane()
        self.calls = LocalCalls(self.directory)

    def endpoint(self, name: str = "end", secrets: Secrets | None = None) -> RemoteEndpoint:
        sealer = Signer(secrets or self.secrets)
        return RemoteEndpoint(self.plane, f"auricle.processor.{name}", sealer, None, self.calls)

    async def end(self, request: EndAudio) -> Accepted:
        if request.session == "slow":
            self.began.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cut.set()
                raise
        if request.session == "bad":
            raise BadRequest("no such session")
        return Accepted(request.total_samples)

    async def open(self, request: EndAudio) -> AsyncGenerator[Accepted, None]:
        try:
            for number in range(request.total_samples):
                self.sent = number + 1
                yield Accepted(number)
            if request.session == "slow":
                await self.go_on.wait()
        finally:
            self.cut.set()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    found = Machine(tmp_path)
    await found.server.start()
    yield found
    found.calls.close()
    await found.server.close()


def another(machine: Machine, instance: int) -> LocalServer:
    """A further process without an endpoint."""
    path = socket_path(machine.directory, instance)
    return LocalServer(path, {}, LocalMetrics(CollectorRegistry()), TaskOwner())


def counted(machine: Machine, name: str) -> float | None:
    return machine.registry.get_sample_value(f"auricle_internal_local_{name}")


async def answer(
    machine: Machine, session: str = "s", samples: int = 1, seconds: float = LONG
) -> Accepted:
    message = EndAudio(session, "t", samples)
    reply: Accepted = await machine.endpoint().call(message, Accepted, INSTANCE, seconds)
    return reply


async def test_a_call_is_answered_without_the_request_plane(machine: Machine) -> None:
    assert await answer(machine, samples=5) == Accepted(5)
    assert machine.plane.called == 0


async def test_all_calls_to_a_process_share_one_connection_and_none_waits_for_a_slow_one(
    machine: Machine,
) -> None:
    slow = asyncio.create_task(answer(machine, "slow", 0))
    await machine.began.wait()
    found = await asyncio.gather(*(answer(machine, samples=number) for number in range(200)))
    assert found == [Accepted(number) for number in range(200)]
    assert not slow.done()
    assert counted(machine, "calls_in_flight") == 1
    machine.go_on.set()
    assert await slow == Accepted(0)
    assert (counted(machine, "calls_total"), counted(machine, "connections")) == (201, 1)
    await eventually(lambda: counted(machine, "calls_in_flight") == 0, seconds=LONG)


async def test_an_error_of_the_other_side_is_raised_here_and_disturbs_nobody_else(
    machine: Machine,
) -> None:
    with pytest.raises(BadRequest, match="no such session"):
        await answer(machine, "bad")
    with pytest.raises(BadRequest, match="no endpoint"):
        await machine.endpoint("other").call(EndAudio("s", "t", 1), Accepted, INSTANCE, LONG)
    assert await answer(machine, samples=2) == Accepted(2)


async def test_only_requests_of_the_deployment_are_taken_and_each_once(
    machine: Machine, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("o" * 64)
    other.chmod(0o600)
    stranger = machine.endpoint(secrets=Secrets(other, ""))
    with pytest.raises(UntrustedCaller):
        await stranger.call(EndAudio("s", "t", 1), Accepted, INSTANCE, LONG)

    path = "auricle.processor.end"
    sealed = Signer(machine.secrets).seal(encoded(EndAudio("s", "t", 3)), receiver(path, INSTANCE))
    connection = await machine.calls.to(INSTANCE)
    assert connection is not None
    found = []
    for _ in range(2):
        found += [reply async for reply in await connection.begin(path, sealed)]
    assert from_wire(found[0], Accepted) == Accepted(3)
    assert from_wire(found[1], Refusal).code == UntrustedCaller.code


async def test_a_caller_that_leaves_ends_the_work_on_its_call(machine: Machine) -> None:
    slow = asyncio.create_task(answer(machine, "slow"))
    await machine.began.wait()
    await cancelled([slow])
    await asyncio.wait_for(machine.cut.wait(), LONG)
    assert await answer(machine, samples=2) == Accepted(2)


async def test_a_deadline_ends_the_work_on_its_call(machine: Machine) -> None:
    with pytest.raises(DeadlineExceeded):
        await answer(machine, "slow", seconds=0.05)
    await asyncio.wait_for(machine.cut.wait(), LONG)


async def test_all_calls_fail_at_once_when_the_other_process_dies(machine: Machine) -> None:
    endpoint = machine.endpoint()
    calls = [
        asyncio.create_task(endpoint.call(EndAudio("slow", "t", 1), Accepted, INSTANCE, LONG))
        for _ in range(3)
    ]
    await machine.began.wait()
    for connection in machine.server._connections:
        connection.abort()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in found] == [WorkerUnavailable] * 3
    assert await endpoint.instances() == []  # other callers avoid it now
    await asyncio.wait_for(machine.cut.wait(), LONG)  # it stops work for lost callers


async def test_a_lost_connection_is_made_again(machine: Machine) -> None:
    await answer(machine)
    connection = await machine.calls.to(INSTANCE)
    assert connection is not None
    connection.abort()
    await eventually(lambda: connection.lost, seconds=LONG)
    assert await answer(machine, samples=2) == Accepted(2)


async def test_a_process_without_a_socket_is_called_over_the_request_plane(
    machine: Machine,
) -> None:
    with pytest.raises(WorkerUnavailable):
        await machine.endpoint().call(EndAudio("s", "t", 1), Accepted, INSTANCE + 1, LONG)
    assert machine.plane.called == 1


# ── streams ─────────────────────────────────────────────────────────────────


async def test_a_stream_comes_in_order_and_ends(machine: Machine) -> None:
    replies = machine.endpoint("open").stream(EndAudio("s", "t", 500), Accepted, INSTANCE)
    assert [reply async for reply in replies] == [Accepted(number) for number in range(500)]


async def test_a_stream_is_only_so_far_ahead_of_its_reader(machine: Machine) -> None:
    stream = machine.endpoint("open").stream(EndAudio("s", "t", 500), Accepted, INSTANCE)
    async with aclosing(stream) as replies:
        assert await anext(replies) == Accepted(0)
        await eventually(lambda: machine.sent > AHEAD, seconds=LONG)
        for _ in range(50):  # long enough for many turns
            await answer(machine)
        assert machine.sent == AHEAD + 1  # one more waits to be sent
    await asyncio.wait_for(machine.cut.wait(), LONG)


async def test_leaving_a_stream_ends_it_on_the_other_side(machine: Machine) -> None:
    stream = machine.endpoint("open").stream(EndAudio("slow", "t", 1), Accepted, INSTANCE)
    async with aclosing(stream) as replies:
        await anext(replies)
        assert not machine.cut.is_set()
    await asyncio.wait_for(machine.cut.wait(), LONG)


# ── beginning and end of a process ──────────────────────────────────────────


async def test_a_process_that_stops_answers_what_it_has_and_takes_nothing_new(
    machine: Machine,
) -> None:
    slow = asyncio.create_task(answer(machine, "slow", 4))
    await machine.began.wait()
    leaving = asyncio.create_task(machine.server.leave())
    await asyncio.sleep(0)
    with pytest.raises(WorkerUnavailable, match="stopping"):
        await answer(machine)
    assert not leaving.done()
    machine.go_on.set()
    assert await slow == Accepted(4)
    await leaving
    assert not socket_path(machine.directory, INSTANCE).exists()


async def test_sockets_of_dead_processes_are_removed_and_no_others(machine: Machine) -> None:
    dead = socket_path(machine.directory, 99)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dead))  # as after a kill: the socket exists, without a listener
    other = another(machine, 8)
    await other.start()
    assert {path.name for path in machine.directory.iterdir()} == {
        socket_path(machine.directory, instance).name for instance in (INSTANCE, 8)
    }
    await other.close()


async def test_only_the_user_may_use_the_socket(machine: Machine) -> None:
    path = socket_path(machine.directory, INSTANCE)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)]
    assert modes == [0o600, 0o700]


async def test_a_directory_that_others_may_enter_is_not_used(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.directory.chmod(0o755)
    assert await machine.calls.to(INSTANCE) is None
    with pytest.raises(OSError, match="its user alone"):
        await another(machine, 8).start()


async def test_a_process_whose_directory_cannot_be_written_has_no_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    plane = LocalPlane(tmp_path / "file", CollectorRegistry())

    async def never(*_: object) -> AsyncGenerator[object, None]:
        yield None

    await plane.serve(INSTANCE, {"end": never}, TaskOwner())
    assert "cannot open the local socket" in caplog.text
    await plane.leave()
    await plane.close()


async def test_who_connects_while_there_are_no_descriptors_is_served_once_there_are(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("auricle.dynamo.local.server._ACCEPT_AGAIN_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    with socket.socket(socket.AF_UNIX) as early:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            early.connect(str(socket_path(machine.directory, INSTANCE)))
            await eventually(lambda: "cannot accept local connections" in caplog.text, seconds=LONG)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        await eventually(lambda: counted(machine, "connections") == 1, seconds=LONG)
    assert await answer(machine, samples=2) == Accepted(2)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff" * 64,
        packed(Kind.CALL, 1, b"auricle.processor.end\0") * 2,  # the same number twice
        packed(Kind.END, 1) + b"\0\0\0\1",
    ],
)
async def test_who_does_not_speak_the_protocol_is_disconnected(
    machine: Machine, nonsense: bytes
) -> None:
    path = str(socket_path(machine.directory, INSTANCE))
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(nonsense)
    await asyncio.wait_for(reader.read(-1), LONG)
    writer.close()
    assert await answer(machine, samples=2) == Accepted(2)


async def test_only_so_many_calls_may_be_under_way(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.dynamo.local.client._MOST_CALLS", 1)
    slow = asyncio.create_task(answer(machine, "slow"))
    await machine.began.wait()
    with pytest.raises(Overloaded):
        await answer(machine)
    monkeypatch.undo()
    monkeypatch.setattr("auricle.dynamo.local.server._MOST_CALLS", 1)
    with pytest.raises(Overloaded):
        await answer(machine)
    machine.go_on.set()
    await slow


async def test_only_so_many_bytes_of_requests_may_be_under_way(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = asyncio.create_task(answer(machine, "slow"))
    await machine.began.wait()
    monkeypatch.setattr("auricle.dynamo.local.server._MOST_BYTES", 150)  # two messages exceed it
    with pytest.raises(Overloaded):
        await answer(machine)
    machine.go_on.set()
    await slow
    assert await answer(machine, samples=2) == Accepted(2)


async def test_a_request_that_is_too_long_is_the_callers_fault(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.dynamo.local.frames.MOST_BYTES", 50)
    endpoint = machine.endpoint()
    with pytest.raises(BadRequest, match="at most 64 MiB"):
        await endpoint.call(EndAudio("s", "t", 1), Accepted, INSTANCE, LONG)
    assert await endpoint.instances() == [INSTANCE]


async def test_a_stream_that_breaks_does_not_seem_to_be_whole(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = machine.endpoint("open").stream(EndAudio("s", "t", 5), Accepted, INSTANCE)
    async with aclosing(stream) as replies:
        assert await anext(replies) == Accepted(0)

    def broken(_: object) -> bytes:
        raise ValueError("a frame of 70000000 bytes")

    monkeypatch.setattr("auricle.dynamo.local.server.packed_from_wire", broken)
    with pytest.raises(AuricleError, match="see its worker's log"):
        await answer(machine)


async def test_a_process_that_reads_nothing_is_sent_no_more_than_a_bound(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir(mode=0o700)
    connected: list[asyncio.Transport] = []
    go_on = asyncio.Event()

    class Frozen(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connected.append(transport)  # type: ignore[arg-type]

        def data_received(self, data: bytes) -> None:
            if not go_on.is_set():
                connected[0].pause_reading()

    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(Frozen, str(socket_path(directory, INSTANCE)))
    calls = LocalCalls(directory)
    connection = await calls.to(INSTANCE)
    assert connection is not None
    request = bytes(100_000)
    waiting = {asyncio.create_task(connection.begin("end", request)) for _ in range(100)}
    began, waiting = await asyncio.wait(waiting, timeout=0.2)
    assert began and waiting
    assert connection.unsent_bytes <= WRITE_AHEAD_BYTES + 2 * len(request)
    go_on.set()
    connected[0].resume_reading()
    most = 0
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=LONG)
        most = max(most, connection.unsent_bytes)
    assert most <= WRITE_AHEAD_BYTES + 2 * len(request)
    calls.close()
    server.close()


# ── the protocol ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 3, 9, 10, 1000])
def test_frames_are_the_same_however_they_arrive(size: int) -> None:
    sent = [(Kind.CALL, 1, b"x" * 100), (Kind.STOP, 2**32 - 1, b""), (Kind.REPLY, 3, b"\0" * 20)]
    data = b"".join(packed(*frame) for frame in sent)
    reader = FrameReader()
    found = []
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    assert found == sent


@pytest.mark.parametrize("length", [0, 4, 2**26 + 1, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(BadFrame):
        FrameReader().feed(length.to_bytes(4, "big"))


def test_only_processes_of_one_machine_have_sockets(tmp_path: Path) -> None:
    assert call_sockets(CommonSettings(discovery_path=tmp_path)) == tmp_path / ".calls"
    for other in (
        {"local_calls": False},
        {"discovery": "etcd"},
        {"internal_host": "10.0.0.7"},
        {"discovery_path": tmp_path / ("x" * 100)},  # Unix sockets have a short maximum path
    ):
        settings = CommonSettings.model_validate({"discovery_path": tmp_path} | other)
        assert call_sockets(settings) is None
