"""A client that stops sending gets all that it would get after a recorded silence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from auricle.core.errors import DeadlineExceeded
from auricle.frontend.audio.holding import HoldTimer
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol
from auricle.frontend.protocols.deepgram.flux import flux_protocol
from auricle.frontend.protocols.deepgram.live import listen_protocol
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.slots import SessionSlots
from auricle.frontend.transport.websocket_protocol import JOIN
from auricle.frontend.transport.websockets import ClientSocket
from tests.fakes.deepgram import AUDIO, LOUD, QUIET, served
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


@pytest.mark.parametrize("early", [1.0, 59.9])
def test_the_idle_limit_holds_once_after_audio_that_was_held_back(early: float) -> None:
    async def tested() -> float:
        socket: Any = JoiningSocket()
        slot = SessionSlots(1).take("a")
        assert slot is not None
        client = ClientSocket(socket, ClientAccount(ANYONE), 20.0, Record("test"), slot)
        loop = asyncio.get_running_loop()
        loop.call_later(early, socket.arrive, b"little")
        with pytest.raises(DeadlineExceeded):
            while True:
                await client.receive(60.0, "audio", 1 << 20)
        client.release()
        return loop.time()

    assert early + 60.0 <= run(tested()) <= early + 62.0
