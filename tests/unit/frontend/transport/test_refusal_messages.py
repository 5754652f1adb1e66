"""`?refusal_message=true`: browsers, which hide a refused handshake's response, get the reason."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets

from auricle.frontend.transport.access.keys import new_key
from tests.fakes.front import START, Front, last_words

pytestmark = pytest.mark.unit
STREAM = "/v1/audio/stream"
WITH_MESSAGE = f"{STREAM}?refusal_message=true"


async def refusal(front: Front, path: str = WITH_MESSAGE, **options: Any) -> tuple[Any, int]:
    async with front.connect(path, **options) as socket:
        told, close_code, _ = await last_words(socket)
    return json.loads(told), close_code


async def test_a_full_servers_refusal_has_its_code_and_when_to_retry() -> None:
    front = Front(max_sessions=1)
    async with asyncio.timeout(60), front.serving(), front.connect(STREAM) as first:
        await first.send(START)
        await front.processors.opened.acquire()
        error, close_code = await refusal(front)
        with pytest.raises(websockets.InvalidStatus) as refused:
            await front.connect(STREAM)
    assert (error["type"], error["code"], close_code) == ("error", "overloaded", 1013)
    assert error["retry_after_seconds"] > 0
    assert refused.value.response.status_code == 503


async def test_a_missing_key_is_named() -> None:
    front = Front(keys=[new_key("acme", None, ["live"])[1]])
    async with asyncio.timeout(60), front.serving():
        error, close_code = await refusal(front)
    assert (error["code"], close_code) == ("invalid_api_key", 1008)
    assert "no API key" in error["message"]


async def test_a_key_may_be_sent_as_a_subprotocol() -> None:
    front = Front(keys=[new_key("acme", None, ["recordings"])[1]], max_sessions=1)
    async with asyncio.timeout(60), front.serving():
        error, _ = await refusal(front, subprotocols=["openai-insecure-api-key.wrong"])
    assert error["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("query", "status"), [("", 401), ("?refusal_message=false", 401), ("?refusal_message=1", 400)]
)
async def test_without_it_a_client_is_refused_at_the_handshake(query: str, status: int) -> None:
    front = Front(keys=[new_key("acme", None, ["live"])[1]])
    async with asyncio.timeout(60), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            await front.connect(STREAM + query)
    assert refused.value.response.status_code == status
