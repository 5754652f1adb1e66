"""A client that stops sending gets all that it would get after a recorded silence."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from auricle.core.aio import cancelled
from auricle.core.errors import DeadlineExceeded
from auricle.frontend.audio.holding import HoldTimer
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol
from auricle.frontend.protocols.deepgram.flux import flux_protocol
from auricle.frontend.protocols.deepgram.live import listen_protocol
from auricle.frontend.protocols.realtime.socket import RealtimeWorker
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.live_sessions import LiveSession, Record
from auricle.frontend.transport.slots import SessionSlots
from auricle.frontend.transport.websocket_protocol import JOIN
from auricle.frontend.transport.websockets import ClientSocket
from auricle.protocol.sessions import SegmentFinal
from tests.fakes.deepgram import AUDIO, LOUD, QUIET, served
from tests.fakes.tcp_port import frontend
from tests.fakes.virtual_time import run

pytestmark = pytest.mark.unit
TERMINATE, CLOSE = '{"type": "Terminate"}', '{"type": "CloseStream"}'
ASSEMBLYAI = "sample_rate=16000"
MULTICHANNEL = f"{AUDIO}&channels=2&multichannel=true"


class Sure:
    """A turn model with one result."""

    def __init__(self, probability: float) -> None:
        self._probability = probability

    async def probability(self, _client: str, _pcm: Any) -> float:
        return self._probability


def kinds(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The messages, without text that may still change and without positions."""
    return [
        (
            message.get("event", message["type"]),
            message.get("channel_index"),
            *(message.get(name) for name in ("speech_final", "trigger", "end_of_turn_confidence")),
        )
        for message in messages
        if message.get("event") != "Update"
        and (message["type"] != "Results" or message["is_final"])
        and (message["type"] != "Turn" or message["end_of_turn"])
    ]


@pytest.mark.parametrize(
    ("protocol", "query", "model", "end"),
    [
        (listen_protocol, AUDIO, None, CLOSE),
        (listen_protocol, f"{AUDIO}&utterance_end_ms=3000&vad_events=true", None, CLOSE),
        (listen_protocol, MULTICHANNEL, None, CLOSE),
        (flux_protocol, AUDIO, None, CLOSE),
        (flux_protocol, f"{AUDIO}&eager_eot_threshold=0.4&eot_threshold=0.9", None, CLOSE),
        (flux_protocol, f"{AUDIO}&eot_threshold=1&eot_timeout_ms=7000", None, CLOSE),
        (flux_protocol, AUDIO, 0.9, CLOSE),
        (flux_protocol, f"{AUDIO}&eager_eot_threshold=0.4", 0.5, CLOSE),
        (flux_protocol, f"{AUDIO}&eot_timeout_ms=7000", 0.0, CLOSE),
        (assemblyai_protocol, ASSEMBLYAI, None, TERMINATE),
        (assemblyai_protocol, f"{ASSEMBLYAI}&max_turn_silence=8000", 0.1, TERMINATE),
    ],
)
@pytest.mark.parametrize("spoken", [1, 2])
def test_a_stall_gives_the_messages_of_a_recorded_silence(
    protocol: Any, query: str, model: float | None, end: str, spoken: int
) -> None:
    turns = None if model is None else Sure(model)
    quiet = [QUIET] * (30 if "multichannel" in query else 15)

    def told(silence: list[Any]) -> list[dict[str, Any]]:
        messages = [*spoken * [LOUD, *silence], end]
        return run(served(*messages, query=query, protocol=protocol, turns=turns)).sent

    stalled = told([20.0])
    assert kinds(stalled) == kinds(told(quiet))
    assert len(kinds(stalled)) >= 2


def test_positions_are_those_of_the_audio() -> None:
    """Time without audio is in no position, no duration and no digest."""
    first, second, last = (
        message
        for message in run(served(LOUD, 20.0, LOUD, 20.0, CLOSE)).sent
        if message["type"] == "Metadata" or message["is_final"]
    )
    assert first["is_final"]
    assert second["is_final"]
    assert last["duration"] == 2.0
    whole = run(served(LOUD, LOUD, CLOSE)).sent[-1]
    assert last["sha256"] == whole["sha256"]


# ── each channel, and clients that end their speech ─────────────────────────


def test_a_channel_that_stops_is_final_while_another_continues() -> None:
    """Tracks of a call come in separate messages."""

    async def tested() -> list[str]:
        front, found = frontend(), list[str]()

        def channel(name: str) -> TextChannel:
            async def on_text(event: Any) -> None:
                if isinstance(event, SegmentFinal):
                    found.append(name)

            session = LiveSession(ClientAccount(ANYONE), Record("test"))
            return TextChannel(front, session, ChannelOptions(sample_rate=16_000), on_text)

        stops, continues = channel("stops"), channel("continues")
        engine = SessionEngine(front, stops, continues)

        async def reading() -> None:
            await stops.take(LOUD)
            while not found:
                await engine.receive(lambda: asyncio.sleep(0.02, 1))
                await continues.take(LOUD[:640])

        await engine.follow(reading())
        return found

    assert run(tested()) == ["stops", "continues"]


def realtime(*sent: dict[str, Any] | float) -> list[str]:
    """The types of the events of a session behind Dynamo's frontend."""

    async def tested() -> list[str]:
        async def incoming() -> AsyncIterator[dict[str, Any]]:
            for one in sent:
                if isinstance(one, float):
                    await asyncio.sleep(one)
                else:
                    yield one

        worker = RealtimeWorker(frontend())
        return [event["type"] async for event in worker.serve(incoming())]

    return run(tested())


SPEECH = {
    "type": "input_audio_buffer.append",
    "audio": base64.b64encode(LOUD).decode(),
}
COMMIT = {"type": "input_audio_buffer.commit"}


def test_a_realtime_turn_ends_though_its_client_sends_nothing() -> None:
    found = realtime(SPEECH, 20.0, COMMIT)
    stopped = found.index("input_audio_buffer.speech_stopped")
    committed = found.index("input_audio_buffer.committed")
    completed = found.index("conversation.item.input_audio_transcription.completed")
    assert stopped < committed < completed < found.index("error")  # nothing is left to commit


def test_the_client_ends_its_manual_turns() -> None:
    manual = {"audio": {"input": {"turn_detection": None}}}
    update = {"type": "session.update", "session": manual}
    found = realtime(update, SPEECH, 20.0, SPEECH, 20.0, COMMIT)
    assert found.count("conversation.item.input_audio_transcription.completed") == 1
    assert found.count("conversation.item.input_audio_transcription.segment") == 1
    assert "error" not in found


async def test_without_endpointing_a_stall_changes_nothing() -> None:
    ingest = Ingest(16_000, "pcm_s16le", cast(Any, None), None)
    ingest.take(LOUD)
    await ingest.process()
    assert ingest.stall_needed is None
    assert await ingest.stall(1_000_000) == []
    assert (ingest.total_samples, ingest.gap) == (16_000, 0)


# ── after the end ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("audio", [b"", b"late"])
def test_a_client_cannot_send_without_end_after_its_end(audio: bytes) -> None:
    async def tested() -> JoiningSocket:
        socket: Any = JoiningSocket()
        client = connected(socket)
        for _ in range(3_000):
            socket.queue.put_nowait({"type": "websocket.receive", "bytes": audio, "text": "{}"})
        reading = asyncio.create_task(client.read_up())
        await asyncio.sleep(10.0)
        assert not reading.done()
        await cancelled([reading])
        await client.close_normally()
        return socket

    socket = run(tested())
    assert socket.queue.qsize() == 2_000
    assert socket.closed == (1000, "audio after the end was ignored" if audio else "")


# ── the idle limit ──────────────────────────────────────────────────────────


class JoiningSocket:
    """A WebSocket whose server joins small messages, in virtual time."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.held = b""
        self._timer = HoldTimer(self.deliver)
        self.scope = {"state": {JOIN: self.join}}

    def arrive(self, data: bytes) -> None:
        self.held += data
        self._timer.held()

    def deliver(self) -> None:
        if self.held:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": self.held})
            self.held = b""

    def join(self, enough: int) -> bool:
        if len(self.held) >= enough:
            self.deliver()
        return not self.queue.empty()

    async def receive(self) -> dict[str, Any]:
        return await self.queue.get()

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)


def connected(socket: Any) -> ClientSocket:
    slot = SessionSlots(1).take("a")
    assert slot is not None
    return ClientSocket(socket, ClientAccount(ANYONE), 20.0, Record("test"), slot)


@pytest.mark.parametrize("early", [1.0, 59.9])
def test_the_idle_limit_holds_once_after_audio_that_was_held_back(early: float) -> None:
    async def tested() -> float:
        socket: Any = JoiningSocket()
        client = connected(socket)
        loop = asyncio.get_running_loop()
        loop.call_later(early, socket.arrive, b"little")
        with pytest.raises(DeadlineExceeded):
            while True:
                await client.receive(60.0, "audio", 1 << 20)
        client.release()
        return loop.time()

    assert early + 60.0 <= run(tested()) <= early + 62.0
