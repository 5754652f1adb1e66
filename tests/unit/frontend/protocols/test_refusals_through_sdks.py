"""SDKs give their user the reason of a refusal; none shows the response to a refused handshake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import assemblyai.streaming.v3 as streaming
import deepgram
import openai
import pytest
import websockets
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment

from auricle.frontend.transport.access.keys import new_key
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
SECRET, KEY = new_key("acme")
OTHER, _ = new_key("globex")
NAME = "universal-streaming-english"  # the SDK accepts no other names than AssemblyAI's


def _deepgram(front: Front, secret: str) -> deepgram.AsyncDeepgramClient:
    url = front.url
    environment = DeepgramClientEnvironment(
        base=url, production=url.replace("http", "ws"), agent=url, agent_rest=url
    )
    return deepgram.AsyncDeepgramClient(api_key=secret, environment=environment)


async def _emitted(connecting: Any) -> str:
    """The texts of the events of Deepgram's connection, and the reason of its close."""
    told: list[Any] = []
    async with connecting as connection:
        connection.on(EventType.MESSAGE, lambda message: told.append(message.description))
        connection.on(EventType.ERROR, told.append)
        await connection.start_listening()
    said, closed = told
    assert isinstance(closed, websockets.ConnectionClosedError)
    assert closed.rcvd is not None and closed.rcvd.reason.startswith(said[:100])
    return str(said)


async def deepgram_listen(front: Front, secret: str, option: dict[str, str]) -> str:
    audio: Any = {"encoding": "linear16", "sample_rate": 16_000, "model": "demo"} | option
    return await _emitted(_deepgram(front, secret).listen.v1.connect(**audio))


async def deepgram_flux(front: Front, secret: str, option: dict[str, str]) -> str:
    audio: Any = {"encoding": "linear16", "sample_rate": 16_000, "model": "demo"} | option
    return await _emitted(_deepgram(front, secret).listen.v2.connect(**audio))


async def assemblyai(front: Front, secret: str, option: dict[str, str]) -> str:
    """The message of the one error that its handler gets."""
    errors: list[Any] = []
    ended = asyncio.Event()

    def on_error(_client: object, error: Any) -> None:
        errors.append(error)
        ended.set()

    options = streaming.RealTimeTranscriberOptions(
        api_host=front.url.replace("http", "ws"), api_key=secret
    )
    client = streaming.AsyncRealTimeTranscriber(options)
    client.on(streaming.RealTimeEvents.Error, on_error)
    given: Any = {"sample_rate": 16_000, "speech_model": NAME} | option
    try:
        await client.connect(streaming.RealTimeParameters(**given))
        await ended.wait()
    finally:
        await client.disconnect()  # its tasks do not end by themselves
    (error,) = errors
    return str(error)


async def openai_realtime(front: Front, secret: str, option: dict[str, str]) -> str:
    """The text of the exception that the SDK raises from the error event."""
    client = openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key=secret, max_retries=0)
    with pytest.raises(openai.OpenAIError) as raised:
        async with client.realtime.connect(**{"model": "demo", **option}) as connection:
            await connection.dispatch_events()
    return str(raised.value)


Sdk = Callable[[Front, str, dict[str, str]], Awaitable[str]]
SDKS = (deepgram_listen, deepgram_flux, assemblyai, openai_realtime)


@dataclass(frozen=True)
class Refusal:
    """`said` is a part of the reason; `options` are of `deepgram`, `assemblyai` and `openai`."""

    said: str
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    secret: str = SECRET
    full: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def option(self, sdk: Sdk) -> dict[str, str]:
        return self.options.get(sdk.__name__.partition("_")[0], {})


REFUSALS = {
    "full server": Refusal("all 1 sessions are in use", full=True),
    "bad key": Refusal("this API key is not known here", secret=OTHER),
    "unknown model": Refusal(
        "does not exist; served here: demo",
        {"deepgram": {"model": "other"}, "openai": {"model": "other"}},
        settings={"model_names": "strict"},
    ),
    "bad option": Refusal(
        "sample_rate", {"deepgram": {"sample_rate": "1"}, "assemblyai": {"sample_rate": "1"}}
    ),
}


@asynccontextmanager
async def filled(front: Front, *, full: bool) -> AsyncIterator[None]:
    """The server, with its only session in use if `full`."""
    async with front.serving():
        if not full:
            yield
            return
        async with front.connect("/v1/realtime", SECRET) as first:
            await first.recv()
            yield


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("kind", REFUSALS)
async def test_the_reason_reaches_the_user(kind: str, sdk: Sdk) -> None:
    refusal = REFUSALS[kind]
    if kind == "bad option" and sdk is openai_realtime:
        pytest.skip("its options are in an event, after the session has begun")
    front = Front([KEY], max_sessions=1, **refusal.settings)
    async with asyncio.timeout(60), filled(front, full=refusal.full):
        told = await sdk(front, refusal.secret, refusal.option(sdk))
    assert refusal.said in told
