"""`?resume=true` lets in ahead of others only who then resumes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import websockets

from auricle.frontend.doors.seats import Seat
from tests.unit.front import START, Front, last_words

pytestmark = pytest.mark.unit
STREAM, REALTIME = "/v1/audio/stream", "/v1/realtime"


class Watched(Front):
    """A frontend that notes which sessions asked to be let in as admitted before."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.asked: list[bool] = []
        admitted = self.frontend.front_door.admitted

        @asynccontextmanager
        async def noted(
            tenant: str, name: str, seat: Seat, *, resumes: bool = False, priority: int = 0
        ) -> AsyncIterator[None]:
            self.asked.append(resumes)
            async with admitted(tenant, name, seat, resumes=resumes, priority=priority):
                yield

        self.frontend.front_door.admitted = noted  # type: ignore[method-assign, assignment]


async def ends(front: Front, path: str, start: str) -> tuple[str, int, str]:
    async with front.connect(path) as socket:
        await socket.send(start)
        said, close_code, _ = await last_words(socket)
        return json.loads(said)["code"], close_code, said


async def test_a_start_without_a_token_is_ended() -> None:
    front = Watched()
    async with asyncio.timeout(20), front.serving():
        code, close_code, said = await ends(front, f"{STREAM}?resume=true", START)
    assert (code, close_code) == ("resume_missing", 1008)
    assert "without it for a new session" in said
    assert front.asked == [True]


async def test_a_false_token_is_ended() -> None:
    front = Watched()
    start = json.dumps(json.loads(START) | {"resume": {"token": "A" * 300, "from_sample": 0}})
    async with asyncio.timeout(20), front.serving():
        code, close_code, _ = await ends(front, f"{STREAM}?resume=true", start)
    assert (code, close_code) == ("resume_malformed", 1008)


async def test_a_server_that_gives_no_tokens_takes_none() -> None:
    front = Watched(resume_seconds=0)
    start = json.dumps(json.loads(START) | {"resume": {"token": "A", "from_sample": 0}})
    async with asyncio.timeout(20), front.serving():
        code, close_code, _ = await ends(front, STREAM, start)
    assert (code, close_code) == ("resume_off", 1008)


async def test_other_protocols_have_no_such_way_in() -> None:
    front = Watched()
    async with asyncio.timeout(20), front.serving():
        for path in (f"{STREAM}?resume=false", f"{REALTIME}?resume=true"):
            async with front.connect(path):
                pass
    assert front.asked == [False, False]


async def test_another_value_is_refused_at_the_handshake() -> None:
    front = Watched()
    async with asyncio.timeout(20), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            await front.connect(f"{STREAM}?resume=1")
    assert refused.value.response.status_code == 400
    assert b"it must be true or false" in (refused.value.response.body or b"")
