"""`?resume=true` gives priority in admission only to clients that then resume a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import websockets

from auricle.frontend.protocols.stream.messages import Start
from auricle.frontend.protocols.stream.resume import NOTHING_SENT, ResumeTokens
from auricle.frontend.transport.access.keys import ApiKey, new_key
from auricle.frontend.transport.slots import SessionSlot
from auricle.protocol.stream import Resume
from tests.fakes.front import START, Front, last_words

pytestmark = pytest.mark.unit
STREAM, REALTIME = "/v1/audio/stream", "/v1/realtime"


class Watched(Front):
    """A frontend that records which sessions requested admission as resumed ones."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.asked: list[bool] = []
        admitted = self.frontend.admission.admitted

        @asynccontextmanager
        async def noted(
            tenant: str, name: str, slot: SessionSlot, *, resumes: bool = False, **more: Any
        ) -> AsyncIterator[None]:
            self.asked.append(resumes)
            async with admitted(tenant, name, slot, resumes=resumes, **more):
                yield

        self.frontend.admission.admitted = noted  # type: ignore[method-assign, assignment]


async def ends(front: Front, path: str, start: str) -> tuple[str, int, str]:
    async with front.connect(path) as socket:
        await socket.send(start)
        said, close_code, _ = await last_words(socket)
        return json.loads(said)["code"], close_code, said


async def test_a_start_without_a_token_is_ended() -> None:
    front = Watched()
    async with asyncio.timeout(60), front.serving():
        code, close_code, said = await ends(front, f"{STREAM}?resume=true", START)
    assert (code, close_code) == ("resume_missing", 1008)
    assert "without it for a new session" in said
    assert front.asked == [True]


async def test_a_false_token_is_ended() -> None:
    front = Watched()
    start = json.dumps(json.loads(START) | {"resume": {"token": "A" * 300, "from_sample": 0}})
    async with asyncio.timeout(60), front.serving():
        code, close_code, _ = await ends(front, f"{STREAM}?resume=true", start)
    assert (code, close_code) == ("resume_malformed", 1008)


async def test_a_server_that_gives_no_tokens_takes_none() -> None:
    front = Watched(resume_seconds=0)
    start = json.dumps(json.loads(START) | {"resume": {"token": "A", "from_sample": 0}})
    async with asyncio.timeout(60), front.serving():
        code, close_code, _ = await ends(front, STREAM, start)
    assert (code, close_code) == ("resume_off", 1008)


async def test_other_protocols_have_no_such_way_in() -> None:
    front = Watched()
    async with asyncio.timeout(60), front.serving():
        for path in (f"{STREAM}?resume=false", f"{REALTIME}?resume=true"):
            async with front.connect(path):
                pass
    assert front.asked == [False, False]


async def test_another_value_is_refused_at_the_handshake() -> None:
    front = Watched()
    async with asyncio.timeout(60), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            await front.connect(f"{STREAM}?resume=1")
    assert refused.value.response.status_code == 400
    assert b"it must be true or false" in (refused.value.response.body or b"")


# ── keys ────────────────────────────────────────────────────────────────────


def resumed(front: Front, key: ApiKey) -> str:
    """The start message with which the holder of the key resumes."""
    tokens = ResumeTokens(front.tokens, 120.0, "demo")
    start = msgspec.json.decode(START, type=Start)
    told: Resume = tokens.issue(
        *(tokens.binding(key, start), start.sample_rate, "sess_before", 640, None, NOTHING_SENT)
    )
    return json.dumps(json.loads(START) | {"resume": msgspec.to_builtins(told)})


@asynccontextmanager
async def goes_on(front: Front, secret: str) -> AsyncIterator[websockets.ClientConnection]:
    """Connect as the holder of a key, to resume a session."""
    async with front.connect(f"{STREAM}?resume=true", secret) as socket:
        yield socket


async def test_whose_key_still_holds_goes_on() -> None:
    secret, key = new_key("acme", scopes=("live",))
    front = Front([key])
    async with asyncio.timeout(120), front.serving(), goes_on(front, secret) as socket:
        await socket.send(resumed(front, key))
        await front.processors.opened.acquire()


async def test_whose_key_was_withdrawn_meanwhile_is_refused_at_the_door() -> None:
    (secret, _), (_, other) = new_key("acme", scopes=("live",)), new_key("globex", scopes=("live",))
    front = Front([other])
    async with asyncio.timeout(120), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with goes_on(front, secret):
                pass
    answer = refused.value.response
    assert answer.status_code == 401
    assert "API key" in json.loads(answer.body)["error"]["message"]
    assert front.processors.opened.locked()


async def test_another_key_of_the_same_client_does_not_go_on_with_its_session() -> None:
    _, old = new_key("acme", scopes=("live",))
    secret, new = new_key("acme", scopes=("live",))
    front = Front([new])
    async with asyncio.timeout(120), front.serving(), goes_on(front, secret) as socket:
        await socket.send(resumed(front, old))
        said, close_code, _ = await last_words(socket)
    assert (json.loads(said)["code"], close_code) == ("resume_other_client", 1008)
    assert "use the key that began it" in said
    assert front.processors.opened.locked()
